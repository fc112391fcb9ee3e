//! Packs contents into zstd frames (RFC 8878) with a checksum, so that a read to the end finds
//! damage. Small contents refer to a dictionary in this program ([`DICTIONARY`]), which halves
//! evidence.

use std::cell::RefCell;
use std::io::{self, Read as _};
use std::sync::LazyLock;

use zstd::bulk::Compressor;
use zstd::dict::EncoderDictionary;
use zstd::stream::raw::CParameter;
use zstd::stream::read::Decoder;
use zstd::zstd_safe::{DCtx, DDict};

/// Level 1 is no faster; level 6 takes twice as long for two percent.
const LEVEL: i32 = 3;

/// Bytes beyond which the dictionary gains nothing.
const SMALL: usize = 65_536;

/// Typical evidence, contents and header fields. Must never change: stored contents need this one.
/// A better dictionary would be added, told apart by a byte before the frame (0x28 begins a frame).
static DICTIONARY: &[u8] = include_bytes!("dictionary.txt");
static FOR_PACKING: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
static FOR_READING: LazyLock<DDict<'static>> = LazyLock::new(|| DDict::create(DICTIONARY));

thread_local! {
    /// For small and for large contents; each builds its tables once.
    static COMPRESSORS: RefCell<[Option<Compressor<'static>>; 2]> =
        const { RefCell::new([None, None]) };
    /// Kept, because making one takes as long as reading a small mail.
    static DECODER: RefCell<DCtx<'static>> = RefCell::new(decoder());
}

/// Packs the parts, one behind the other, into one frame.
pub fn pack(parts: &[&[u8]]) -> io::Result<Vec<u8>> {
    let is_large = parts.iter().map(|part| part.len()).sum::<usize>() > SMALL;
    COMPRESSORS.with_borrow_mut(|[small, large]| {
        let kept = if is_large { large } else { small };
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(compressor(is_large)?),
        };
        let mut packed = match parts {
            [one] => compressor.compress(one)?,
            parts => compressor.compress(&parts.concat())?,
        };
        // The compressor reserves memory for the worst case, and the frame waits with others.
        packed.shrink_to_fit();
        Ok(packed)
    })
}

fn compressor(is_large: bool) -> io::Result<Compressor<'static>> {
    let mut compressor = match is_large {
        true => Compressor::new(LEVEL)?,
        false => Compressor::with_prepared_dictionary(&FOR_PACKING)?,
    };
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    Ok(compressor)
}

/// Makes a decoder for frames with and without the dictionary.
fn decoder() -> DCtx<'static> {
    let mut context = DCtx::create();
    if context.ref_ddict(&FOR_READING).is_err() {
        tracing::error!("cannot load the zstd dictionary: evidence cannot be read");
    }
    context
}

/// Unpacks the first `octets` bytes, and does not reach the checksum; fails if there are fewer.
pub fn first(packed: &[u8], octets: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::with_capacity(usize::try_from(octets).unwrap_or(0).min(packed.len() * 8));
    decoding(packed, |decoder| decoder.take(octets).read_to_end(&mut read))?;
    is_whole(&read, octets).map(|()| read)
}

/// Unpacks the bytes behind the first `skipped`; fails unless there are exactly `octets`.
pub fn behind(packed: &[u8], skipped: u64, octets: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    decoding(packed, |decoder| {
        let passed = io::copy(&mut decoder.by_ref().take(skipped), &mut io::sink())?;
        if passed != skipped {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // One byte more, to reach the end of the frame, and with it the checksum.
        decoder.take(octets.saturating_add(1)).read_to_end(&mut read)
    })?;
    is_whole(&read, octets).map(|()| read)
}

/// Unpacks a whole frame, without a limit: only for contents that this program has bounded.
pub fn whole(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    decoding(packed, |decoder| decoder.read_to_end(&mut read))?;
    Ok(read)
}

fn decoding<T>(
    packed: &[u8],
    read: impl FnOnce(&mut Decoder<'_, &[u8]>) -> io::Result<T>,
) -> io::Result<T> {
    DECODER.with_borrow_mut(|context| read(&mut Decoder::with_context(packed, context)))
}

fn is_whole(read: &[u8], octets: u64) -> io::Result<()> {
    match u64::try_from(read.len()) == Ok(octets) {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the unpacked size differs from the stored one",
        )),
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::{SHA256, digest};

    use super::*;

    #[test]
    fn what_is_packed_comes_out_again_in_parts_and_whole() {
        let (read, raw) = (b"what was read".as_slice(), b"the original ".repeat(1000));
        let packed = pack(&[read, &raw]).unwrap();
        assert!(packed.len() < 200, "{}", packed.len());
        assert_eq!(first(&packed, 13).unwrap(), read);
        assert_eq!(behind(&packed, 13, 13_000).unwrap(), raw);
        assert_eq!(whole(&packed).unwrap(), [read, &raw].concat());
        let empty = pack(&[read, b""]).unwrap();
        assert_eq!(behind(&empty, 13, 0).unwrap(), b"");
    }

    #[test]
    fn the_dictionary_is_the_one_that_all_was_packed_with() {
        let digest: String = digest(&SHA256, DICTIONARY)
            .as_ref()
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect();
        assert_eq!(digest, "6ac2e687be51f22b616e80ae67f5073e019b41b34b30bc5be4fa05cd76908b3f");
        // Packed when the dictionary was made.
        let packed = include_bytes!("../../../fixtures/packed.zst");
        assert_eq!(whole(packed).unwrap(), b"{\"name\":\"scan\",\"result\":\"pass\"}".repeat(3));
    }

    #[test]
    fn evidence_is_halved_by_it_and_large_contents_do_without() {
        let records = std::fs::read_to_string("fixtures/records.json").unwrap();
        let lines = records.lines().filter(|line| line.len() > 100);
        let (mut octets, mut packed, mut apart) = (0, 0, 0);
        for line in lines {
            let one = pack(&[line.as_bytes()]).unwrap();
            assert_eq!(whole(&one).unwrap(), line.as_bytes());
            octets += line.len();
            packed += one.len();
            apart += zstd::bulk::compress(line.as_bytes(), LEVEL).unwrap().len();
        }
        assert!(packed * 3 < octets && packed * 10 < apart * 6, "{octets}: {packed}, {apart}");
        let large = records.repeat(2);
        let one = pack(&[large.as_bytes()]).unwrap();
        assert_eq!(whole(&one).unwrap(), large.as_bytes());
        assert_eq!(one, zstd_of(large.as_bytes()), "others can read it, too");
    }

    fn zstd_of(octets: &[u8]) -> Vec<u8> {
        let mut compressor = Compressor::new(LEVEL).unwrap();
        compressor.set_parameter(CParameter::ChecksumFlag(true)).unwrap();
        compressor.compress(octets).unwrap()
    }

    #[test]
    fn damage_is_noticed() {
        let raw: Vec<u8> =
            (0_u32..5000).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_be_bytes()).collect();
        let packed = pack(&[b"ab", &raw]).unwrap();
        let size = u64::try_from(raw.len()).unwrap();
        assert!(behind(&packed, 2, size - 1).is_err() && behind(&packed, 2, size + 1).is_err());
        assert!(first(&packed, size + 3).is_err() && behind(&packed, size + 3, 0).is_err());
        for place in [5, packed.len() / 2, packed.len() - 1] {
            let mut damaged = packed.clone();
            damaged[place] ^= 1;
            assert!(behind(&damaged, 2, size).is_err(), "{place}");
        }
        assert!(first(b"", 1).is_err() && whole(&packed[..9]).is_err() && whole(b"{}").is_err());
    }
}
