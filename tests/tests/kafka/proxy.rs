//! A proxy between a member and its brokers, whose connections a test breaks or holds up.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use kafka_protocol::messages::ApiKey;

/// Forwards connections to one port of this machine. It lives as long as the process.
#[derive(Clone)]
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Where to; nowhere at first.
    target: Option<u16>,
    /// Bytes wait.
    held: bool,
    /// Both ends of every connection.
    open: Vec<TcpStream>,
    /// How many requests of each kind have gone to the broker, by API key.
    requests: BTreeMap<i16, usize>,
}

impl Proxy {
    /// Listens. Connections wait until there is a target.
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), shared: Arc::default() };
        let shared = Arc::clone(&proxy.shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || client.and_then(|client| serve(client, &shared)));
            }
        });
        proxy
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Forwards to this port from now on.
    pub(crate) fn forward(&self, target: u16) {
        self.shared.state.lock().unwrap().target = Some(target);
        self.shared.changed.notify_all();
    }

    /// How many requests of this kind have gone to the broker.
    pub(crate) fn requests(&self, api: ApiKey) -> usize {
        self.shared.state.lock().unwrap().requests.get(&(api as i16)).copied().unwrap_or(0)
    }

    /// Closes every connection. New ones are served.
    pub(crate) fn cut(&self) {
        for stream in std::mem::take(&mut self.shared.state.lock().unwrap().open) {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Holds all bytes back, as a network does that loses every packet, or lets them pass again.
    pub(crate) fn hold(&self, held: bool) {
        self.shared.state.lock().unwrap().held = held;
        self.shared.changed.notify_all();
    }
}

fn serve(client: TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    let state = shared.state.lock().unwrap();
    let state = shared.changed.wait_while(state, |state| state.held || state.target.is_none()).unwrap();
    let target = state.target.unwrap_or_default();
    drop(state);
    let broker = TcpStream::connect(("127.0.0.1", target))?;
    for stream in [&client, &broker] {
        stream.set_nodelay(true)?;
        let mut state = shared.state.lock().unwrap();
        state.open.push(stream.try_clone()?);
    }
    let (to, from) = (broker.try_clone()?, client.try_clone()?);
    let back = Arc::clone(shared);
    std::thread::spawn(move || copy(broker, client, &back, |_| {}));
    let mut frames = Frames::default();
    let count = |bytes: &[u8]| {
        for &byte in bytes {
            if let Some(api) = frames.next(byte) {
                *shared.state.lock().unwrap().requests.entry(api).or_default() += 1;
            }
        }
    };
    copy(from, to, shared, count);
    Ok(())
}

/// Tells the kinds of requests from their bytes: each is a length, and that many bytes, the first two of which are its API key.
#[derive(Default)]
struct Frames {
    /// The length and the key, as far as they have come.
    head: Vec<u8>,
    /// How much of the frame is to come.
    left: usize,
}

impl Frames {
    fn next(&mut self, byte: u8) -> Option<i16> {
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        self.head.push(byte);
        let head: [u8; 6] = self.head.as_slice().try_into().ok()?;
        self.head.clear();
        let [length @ .., high, low] = head;
        self.left = (u32::from_be_bytes(length) as usize).saturating_sub(2);
        Some(i16::from_be_bytes([high, low]))
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, shared: &Shared, mut look: impl FnMut(&[u8])) {
    let mut buffer = [0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        look(&buffer[..count]);
        drop(shared.changed.wait_while(shared.state.lock().unwrap(), |state| state.held).unwrap());
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The other side may be closed already.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn requests_are_told_by_their_keys_however_their_bytes_come() {
    let mut frames = Frames::default();
    let mut bytes = Vec::new();
    for (key, body) in [(12i16, 0), (14, 3), (11, 70_000)] {
        bytes.extend((2 + body as u32).to_be_bytes());
        bytes.extend(key.to_be_bytes());
        bytes.extend(vec![9; body]);
    }
    let keys: Vec<i16> = bytes.iter().filter_map(|&byte| frames.next(byte)).collect();
    assert_eq!(keys, [12, 14, 11]);
}
