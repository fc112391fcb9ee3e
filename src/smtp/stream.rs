//! The transport of a session: in clear or encrypted, and the change between them.

use std::io;
use std::mem;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::domain::ports::TlsFacts;
use crate::shutdown::Shutdown;
use crate::tls::Acceptor;

#[derive(Debug)]
pub(super) enum Stream {
    Clear(TcpStream),
    /// Boxed, so that a session in clear does not pay for it.
    Encrypted(Box<TlsStream<TcpStream>>),
    /// A connection of a simulated network.
    #[cfg(test)]
    Simulated(tokio::io::DuplexStream),
    /// After a failed handshake: reads return nothing.
    Closed,
}

impl Stream {
    /// Performs the TLS handshake. Returns None, with the stream closed, if the stream is not in
    /// clear, the soft stop begins, or the handshake fails. A failure is logged at info: many
    /// clients on the Internet try and fail, which is no fault of ours.
    pub(super) async fn secure(
        &mut self,
        acceptor: &Acceptor,
        client: IpAddr,
        shutdown: &Shutdown,
    ) -> Option<TlsFacts> {
        let Self::Clear(stream) = mem::replace(self, Self::Closed) else { return None };
        let accepted = tokio::select! {
            biased;
            () = shutdown.soft() => return None,
            accepted = acceptor.accept(stream) => accepted,
        };
        match accepted {
            Ok((stream, facts)) => {
                *self = Self::Encrypted(Box::new(stream));
                Some(facts)
            }
            Err(error) => {
                tracing::info!(client.address = %client, error = %error, "TLS handshake failed");
                None
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Clear(stream) => Pin::new(stream).poll_read(context, into),
            Self::Encrypted(stream) => Pin::new(stream).poll_read(context, into),
            #[cfg(test)]
            Self::Simulated(stream) => Pin::new(stream).poll_read(context, into),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Clear(stream) => Pin::new(stream).poll_write(context, octets),
            Self::Encrypted(stream) => Pin::new(stream).poll_write(context, octets),
            #[cfg(test)]
            Self::Simulated(stream) => Pin::new(stream).poll_write(context, octets),
            Self::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Clear(stream) => Pin::new(stream).poll_flush(context),
            Self::Encrypted(stream) => Pin::new(stream).poll_flush(context),
            #[cfg(test)]
            Self::Simulated(stream) => Pin::new(stream).poll_flush(context),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }

    /// TLS ends with close_notify (RFC 8446 §6.1): without it the client cannot tell our end from a
    /// cut wire.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Clear(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(test)]
            Self::Simulated(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}
