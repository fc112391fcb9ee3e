//! Reads the bytes of a body, within limits.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::{Body, HttpBody as _};

use crate::http::error::Problem;
use crate::rules::AccessLimits;

#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct BodyBounds<'l> {
    pub(in crate::http) most: usize,
    pub(in crate::http) limits: &'l AccessLimits,
    /// Whether the client waits for 100 (Continue) before it sends the body (RFC 9110 §10.1.1).
    pub(in crate::http) expects: bool,
}

#[derive(Debug)]
pub(in crate::http) enum BodyError {
    TooLarge,
    /// The connection ended first.
    CutShort,
    /// No place is free for so large a body.
    NoPlace(Problem),
}

/// Reads a whole body. A body above `most` bytes fails, after it was read on and dropped, within
/// limits: a client that reads the response only after sending would otherwise meet a closed
/// connection. A body above `max_body_bytes` waits for a `place`; without one it fails in that way.
pub(in crate::http) async fn read_whole<P, R>(
    mut body: Body,
    bounds: BodyBounds<'_>,
    place: impl Fn() -> R,
) -> Result<(Vec<u8>, Option<P>), BodyError>
where
    R: Future<Output = Result<P, Problem>>,
{
    let BodyBounds { most, limits, expects } = bounds;
    if expects && body.size_hint().lower() > u64::try_from(most).unwrap_or(u64::MAX) {
        return Err(BodyError::TooLarge);
    }
    let (mut octets, mut read, mut taken) = (Vec::new(), 0_usize, None);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(|_| BodyError::CutShort)?.into_data() else { continue };
        read = read.saturating_add(data.len());
        if read > most.saturating_add(limits.max_drained_bytes) {
            return Err(BodyError::TooLarge);
        }
        if read > limits.max_body_bytes && read <= most && taken.is_none() {
            taken = Some(place().await);
        }
        if let Some(Err(problem)) = &taken
            && read > limits.max_body_bytes.saturating_add(limits.max_drained_bytes)
        {
            return Err(BodyError::NoPlace(problem.clone()));
        }
        if read > most || matches!(taken, Some(Err(_))) {
            octets = Vec::new();
        } else {
            octets.extend_from_slice(&data);
        }
    }
    let taken = taken.transpose().map_err(BodyError::NoPlace)?;
    if read > most { Err(BodyError::TooLarge) } else { Ok((octets, taken)) }
}
