//! A wire between two programs that can be cut: then nothing comes through, on connections that
//! there are and on new ones, and none of them ends, as if a cable were pulled.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub struct Wire {
    pub port: u16,
    is_cut: watch::Sender<bool>,
    _carrying: JoinSet<()>,
}

impl Wire {
    /// To what listens on this port of the loopback, now or later.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let end = SocketAddr::from(([127, 0, 0, 1], port));
        let here = listener.local_addr().unwrap().port();
        let (is_cut, watched) = watch::channel(false);
        let mut carrying = JoinSet::new();
        carrying.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, end, watched.clone()));
            }
        });
        Self { port: here, is_cut, _carrying: carrying }
    }

    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// New connections come through again; those that were cut end.
    pub fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

async fn carry(mut client: TcpStream, end: SocketAddr, mut is_cut: watch::Receiver<bool>) {
    let passing = async {
        if let Ok(mut server) = TcpStream::connect(end).await {
            let _ended = copy_bidirectional(&mut client, &mut server).await;
        }
    };
    let mut watched = is_cut.clone();
    tokio::select! {
        biased;
        _ = watched.wait_for(|cut| *cut) => {}
        () = passing => return,
    }
    let _mended = is_cut.wait_for(|cut| !*cut).await.map(drop);
}
