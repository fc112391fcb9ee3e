//! Heat maps: counts in rows and columns, each cell the stronger the more it counts.

/// Shades beside that of nothing.
const SHADES: u64 = 4;

/// Shown by `heat.html`.
pub(super) struct HeatMap {
    /// The words above the names of rows.
    pub(super) of: &'static str,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
}

pub(super) struct Row {
    pub(super) name: String,
    pub(super) cells: Vec<Cell>,
}

pub(super) struct Cell {
    pub(super) count: u64,
    /// 0 for nothing, else 1 to 4 by the number of digits: a hundred times as much is not lost
    /// beside a thousand times as much.
    pub(super) shade: u64,
}

impl HeatMap {
    /// Rows of so many counts as there are columns.
    pub(super) fn new(
        of: &'static str,
        columns: Vec<String>,
        rows: impl IntoIterator<Item = (String, Vec<u64>)>,
    ) -> Self {
        let rows: Vec<_> = rows.into_iter().collect();
        let most = rows.iter().flat_map(|(_, counts)| counts).max().copied().unwrap_or(0);
        let cell = |count| Cell { count, shade: shade(count, most) };
        let row = |(name, counts): (String, Vec<u64>)| Row {
            name,
            cells: counts.into_iter().map(cell).collect(),
        };
        Self { of, columns, rows: rows.into_iter().map(row).collect() }
    }
}

/// The shade of a count beside the largest one.
fn shade(count: u64, most: u64) -> u64 {
    let digits = |count: u64| u64::from(u64::BITS - count.leading_zeros());
    (digits(count) * SHADES).div_ceil(digits(most).max(1)).min(SHADES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_never_lighter_and_only_nothing_has_no_shade() {
        for most in [1, 2, 7, 1_000, u64::MAX] {
            assert_eq!((shade(0, most), shade(most, most)), (0, SHADES));
            let mut counts = [1, 2, 3, most / 2, most].map(|count| count.clamp(1, most));
            counts.sort_unstable();
            let shades = counts.map(|count| shade(count, most));
            assert!(shades.is_sorted() && shades[0] > 0, "{most}: {shades:?}");
        }
        assert_eq!(shade(0, 0), 0);
    }
}
