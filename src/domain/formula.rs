//! The language of metrics: numbers, log fields, `+ - * /`, comparisons (1 or 0) and parentheses.
//! `latencyMs / 1000`, `delivered / deliveries`, `outcome == 'refused'`.
//!
//! A null operand makes the result null, and so does a division by zero. Databases differ beyond
//! the range of their numbers, so formulas that could get there are refused when they are parsed.

use super::decimal::Decimal;
use super::log_field::{Kind, LogField};

/// Longest formula, in bytes.
const LONGEST: usize = 500;
/// Deepest nesting of parentheses and signs: bounds the stack here and in the databases.
const DEEPEST: u32 = 20;
/// Most operands and operators, which bounds the look-ups per row.
const LARGEST: u32 = 60;
/// Bound of the results, as a power of ten and its inverse: they are summed over many rows.
const WIDEST: i32 = 250;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// The syntax tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Formula {
    Constant(Decimal),
    /// A numeric field.
    Field(LogField),
    /// 1 if a text field has this value, else 0; `negated` swaps them. A null field equals no
    /// value.
    Is {
        field: LogField,
        text: String,
        negated: bool,
    },
    Negate(Box<Self>),
    Calculate(Operator, Box<Self>, Box<Self>),
}

impl Operator {
    /// The operator in SQL, the same in both databases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Equal => "=",
            Self::NotEqual => "<>",
        }
    }

    /// Tells whether the result is 1 or 0.
    pub const fn compares(self) -> bool {
        !matches!(self, Self::Add | Self::Subtract | Self::Multiply | Self::Divide)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormulaError {
    #[error("formula is too long: at most {LONGEST} bytes")]
    TooLong,
    #[error("formula is too large: at most {LARGEST} numbers and operators")]
    TooLarge,
    #[error("formula is too deep: at most {DEEPEST} levels")]
    TooDeep,
    #[error(
        "formula could exceed the range of numbers (10 to the power of {WIDEST}): multiply and \
         divide less"
    )]
    TooWide,
    /// `place` is a character position, from 1.
    #[error("formula, character {place}: expected {expected}")]
    Expected { place: usize, expected: &'static str },
    #[error("formula, character {place}: expected {LEAF}; fields are {}", LogField::names())]
    NoField { place: usize },
}

/// Expected where an operand must begin.
const LEAF: &str = "a number, a field, or a parenthesis";

impl Formula {
    /// Parses a formula. Fails if it is malformed, too large or too deep, or if its results could
    /// leave the range of numbers.
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        if text.len() > LONGEST {
            return Err(FormulaError::TooLong);
        }
        let mut reader = Reader { text, at: 0, depth: 0, size: 0 };
        let formula = reader.comparison()?;
        reader.skip();
        if reader.at < text.len() {
            return Err(reader.fault("an operator, or the end"));
        }
        let Size { high, low, .. } = formula.size();
        if high > WIDEST || low < -WIDEST {
            return Err(FormulaError::TooWide);
        }
        Ok(formula)
    }

    /// Counts the uses of fields that are computed from deliveries.
    pub fn delivery_terms(&self) -> usize {
        match self {
            Self::Constant(_) => 0,
            Self::Field(field) | Self::Is { field, .. } => usize::from(field.is_of_deliveries()),
            Self::Negate(inner) => inner.delivery_terms(),
            Self::Calculate(_, one, other) => one.delivery_terms() + other.delivery_terms(),
        }
    }

    fn size(&self) -> Size {
        match self {
            Self::Constant(number) => Size::of(*number),
            // 64-bit integers; `latencyMs` has thousandths.
            Self::Field(field) if field.kind() == Kind::Real => Size::new(19, -3),
            Self::Field(_) => Size { high: 19, low: 0, grain: 0 },
            Self::Is { .. } => Size { high: 0, low: 0, grain: 0 },
            Self::Negate(inner) => inner.size(),
            Self::Calculate(operator, one, other) => {
                let (one, other) = (one.size(), other.size());
                match operator {
                    Operator::Add | Operator::Subtract => {
                        let grain = one.grain.min(other.grain);
                        Size { high: one.high.max(other.high) + 1, low: grain, grain }
                    }
                    Operator::Multiply => Size::new(one.high + other.high, one.low + other.low),
                    Operator::Divide => Size::new(one.high - other.low, one.low - other.high),
                    _ => Size { high: 0, low: 0, grain: 0 },
                }
            }
        }
    }
}

/// Bounds of a formula's results, as powers of ten.
#[derive(Clone, Copy)]
struct Size {
    /// Upper bound of the absolute value.
    high: i32,
    /// Lower bound of the absolute value, unless the result is 0.
    low: i32,
    /// The results are multiples of a power of two that is at least this. So a difference is at
    /// least this, or 0.
    grain: i32,
}

impl Size {
    /// Bounds of floating-point numbers with 53 bits.
    const fn new(high: i32, low: i32) -> Self {
        Self { high, low, grain: low - 17 }
    }

    fn of(number: Decimal) -> Self {
        let power = |number: u64| number.checked_ilog10().map_or(0, u32::cast_signed);
        let divisor = power(number.divisor.unsigned_abs());
        let low = power(number.digits.unsigned_abs()) - divisor;
        match divisor {
            0 => Self { high: low + 1, low, grain: 0 },
            _ => Self::new(low + 1, low),
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: u32,
    size: u32,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(' ').len();
    }

    fn place(&self) -> usize {
        self.text.get(..self.at).unwrap_or_default().chars().count() + 1
    }

    fn fault(&self, expected: &'static str) -> FormulaError {
        FormulaError::Expected { place: self.place(), expected }
    }

    /// Consumes the first of `signs` that comes next.
    fn take<T: Copy>(&mut self, signs: &[(&str, T)]) -> Option<T> {
        self.skip();
        let rest = self.rest();
        let (sign, meaning) = signs.iter().find(|(sign, _)| rest.starts_with(sign))?;
        self.at += sign.len();
        Some(*meaning)
    }

    /// Consumes characters while `belongs` holds.
    fn run(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        let taken = rest.get(..end).unwrap_or_default().to_owned();
        self.at += end;
        taken
    }

    fn grow(&mut self) -> Result<(), FormulaError> {
        self.size += 1;
        (self.size <= LARGEST).then_some(()).ok_or(FormulaError::TooLarge)
    }

    fn calculate(
        &mut self,
        by: Operator,
        one: Formula,
        two: Formula,
    ) -> Result<Formula, FormulaError> {
        self.grow()?;
        Ok(Formula::Calculate(by, Box::new(one), Box::new(two)))
    }

    fn comparison(&mut self) -> Result<Formula, FormulaError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(FormulaError::TooDeep);
        }
        let one = self.sum()?;
        let whole = match self.take(&[
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ]) {
            Some(operator) => {
                let other = self.sum()?;
                self.calculate(operator, one, other)?
            }
            None => one,
        };
        self.depth -= 1;
        Ok(whole)
    }

    fn sum(&mut self) -> Result<Formula, FormulaError> {
        let mut whole = self.product()?;
        while let Some(operator) = self.take(&[("+", Operator::Add), ("-", Operator::Subtract)]) {
            let next = self.product()?;
            whole = self.calculate(operator, whole, next)?;
        }
        Ok(whole)
    }

    fn product(&mut self) -> Result<Formula, FormulaError> {
        let mut whole = self.unary()?;
        while let Some(operator) = self.take(&[("*", Operator::Multiply), ("/", Operator::Divide)])
        {
            let next = self.unary()?;
            whole = self.calculate(operator, whole, next)?;
        }
        Ok(whole)
    }

    fn unary(&mut self) -> Result<Formula, FormulaError> {
        if self.take(&[("-", ())]).is_none() {
            return self.leaf();
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(FormulaError::TooDeep);
        }
        self.grow()?;
        let inner = self.unary()?;
        self.depth -= 1;
        Ok(Formula::Negate(Box::new(inner)))
    }

    fn leaf(&mut self) -> Result<Formula, FormulaError> {
        if self.take(&[("(", ())]).is_some() {
            let inner = self.comparison()?;
            let closed = self.take(&[(")", ())]);
            return closed.map(|()| inner).ok_or_else(|| self.fault("a closing parenthesis"));
        }
        self.grow()?;
        let begin = self.at;
        let number = self.run(|c| c.is_ascii_digit() || c == '.');
        if !number.is_empty() {
            let read = Decimal::parse(&number).map(Formula::Constant);
            self.at = if read.is_some() { self.at } else { begin };
            return read.ok_or_else(|| self.fault("a number of at most 15 digits"));
        }
        let name = self.run(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        if name.is_empty() {
            return Err(self.fault(LEAF));
        }
        let Some(field) = LogField::named(&name) else {
            self.at = begin;
            return Err(FormulaError::NoField { place: self.place() });
        };
        match field.kind() {
            Kind::Integer | Kind::Real => Ok(Formula::Field(field)),
            Kind::Text => self.is(field),
            Kind::Id | Kind::Time | Kind::Unfilled => {
                self.at = begin;
                Err(self.fault("a number field or a text field"))
            }
        }
    }

    /// Parses a comparison after the name of a text field.
    fn is(&mut self, field: LogField) -> Result<Formula, FormulaError> {
        let fault = "== or != and a text in quotes after a text field";
        let negated = self.take(&[("==", false), ("!=", true)]);
        let negated = negated.ok_or_else(|| self.fault(fault))?;
        let quote = self.take(&[("'", '\''), ("\"", '"')]).ok_or_else(|| self.fault(fault))?;
        let text = self.run(|c| c != quote);
        if !self.rest().starts_with(quote) {
            return Err(self.fault("a closing quote"));
        }
        self.at += 1;
        Ok(Formula::Is { field, text, negated })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Prints every parenthesis.
    fn shown(formula: &Formula) -> String {
        match formula {
            Formula::Constant(number) => number.value().to_string(),
            Formula::Field(field) => field.name().to_owned(),
            Formula::Is { field, text, negated } => {
                format!("({} {} {text:?})", field.name(), if *negated { "!=" } else { "==" })
            }
            Formula::Negate(inner) => format!("(-{})", shown(inner)),
            Formula::Calculate(operator, one, other) => {
                format!("({} {} {})", shown(one), operator.as_str(), shown(other))
            }
        }
    }

    #[test]
    fn formulas_are_read_as_they_are_meant() {
        for (text, meant) in [
            ("1", "1"),
            (" 1 ", "1"),
            ("latencyMs", "latencyMs"),
            ("1+2*3", "(1 + (2 * 3))"),
            ("(1+2)*3", "((1 + 2) * 3)"),
            ("1-2-3", "((1 - 2) - 3)"),
            ("8/4/2", "((8 / 4) / 2)"),
            ("-size", "(-size)"),
            ("--2", "(-(-2))"),
            ("2*-3", "(2 * (-3))"),
            ("delivered / deliveries", "(delivered / deliveries)"),
            ("latencyMs > 2.5", "(latencyMs > 2.5)"),
            ("size+1 <= count*2", "((size + 1) <= (count * 2))"),
            ("size == 1", "(size = 1)"),
            ("outcome == 'refused'", "(outcome == \"refused\")"),
            ("(outcome != \"a'b\") * count", "((outcome != \"a'b\") * count)"),
        ] {
            assert_eq!(shown(&Formula::parse(text).unwrap()), meant, "{text}");
        }
    }

    #[test]
    fn what_is_no_formula_is_refused_with_its_place() {
        let (deep, wide) = ("(".repeat(21), vec!["1"; 40].join("+"));
        let far = vec!["size"; 15].join("*");
        let near = format!("1/{}", vec!["(1/size)"; 14].join("/"));
        for (text, said) in [
            ("", "character 1: expected a number"),
            ("1 +", "character 4: expected a number"),
            ("1 2", "character 3: expected an operator"),
            ("(1", "character 3: expected a closing parenthesis"),
            ("1)", "character 2: expected an operator"),
            ("1..2", "character 1: expected a number of at most"),
            (
                "nothing",
                "character 1: expected a number, a field, or a parenthesis; fields are id,",
            ),
            ("size; DROP TABLE messages", "character 5: expected an operator"),
            ("uuid", "a number field or a text field"),
            ("experiments.id", "a number field or a text field"),
            ("outcome", "== or !="),
            ("outcome == refused", "a text in quotes"),
            ("outcome == 'refused", "a closing quote"),
            ("1 < 2 < 3", "character 7: expected an operator"),
            ("ü", "character 1"),
            (&deep, "too deep"),
            (&"-".repeat(30), "too deep"),
            (&wide, "too large"),
            (&far, "exceed the range"),
            (&near, "exceed the range"),
            (&"1".repeat(501), "at most 500 bytes"),
        ] {
            let fault = Formula::parse(text).unwrap_err().to_string();
            assert!(fault.contains(said), "{text}: {fault}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_read_or_refused(text in "[-+*/<>=!().' 0-9a-zü]{0,80}") {
            if let Ok(formula) = Formula::parse(&text) {
                prop_assert_eq!(Formula::parse(&shown(&formula).replace("<>", "!=")
                    .replace(" = ", " == ")), Ok(formula));
            }
        }
    }
}
