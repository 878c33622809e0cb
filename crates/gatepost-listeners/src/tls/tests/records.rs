//! Writes from any task arrive complete and in order, and no task waits for a client that sends
//! nothing.

use super::*;

/// The server's end of a connection after its handshake, and the thread in which the client does
/// its `part`.
async fn connected<T: Send + 'static>(
    part: impl FnOnce(Client) -> T + Send + 'static,
) -> (Arc<Stream>, std::thread::JoinHandle<T>) {
    let authority = Authority::new();
    authority.sign("localhost");
    let tls = ServerTls::open(&authority.settings("localhost"), &[]).expect("certificates");
    let (acceptor, port) = acceptor();
    let listening = acceptor.listen().expect("registered");
    let config = authority.client();
    let client = std::thread::spawn(move || {
        let client = connect(port, &config, "localhost").expect("connected");
        part(client)
    });
    let (accepted, peer) = listening.accept().await.expect("a client");
    let accepted = accepted.open(peer).await.expect("open").0;
    let stream = tls.accept(accepted).await.expect("a handshake");
    (Arc::new(stream), client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_gets_everything_in_order_though_others_write() {
    const PIECES: u32 = 40_000;
    let (stream, reader) = connected(|mut client| {
        let mut received = Vec::new();
        client.read_to_end(&mut received).expect("everything");
        received
    })
    .await;
    // The owner only ever waits to read, as a subscriber's task does; another task writes.
    let owner = tokio::spawn({
        let stream = stream.clone();
        async move {
            loop {
                poll_fn(|context| stream.poll_read_ready(context)).await?;
                match stream.try_read(&mut [0; 64]) {
                    Ok(0) => return Ok(()),
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                    _ => {}
                }
            }
        }
    });
    for piece in 0..PIECES {
        let bytes = piece.to_be_bytes();
        let (head, tail) = bytes.split_at(1);
        let mut sent = 0;
        while sent < 4 {
            let slices = [
                io::IoSlice::new(head),
                io::IoSlice::new(tail),
                io::IoSlice::new(&[0x5a; 996]),
            ];
            assert_eq!(sent, 0, "a piece this small is taken whole or not at all");
            match stream.try_write(&slices) {
                Ok(count) => {
                    assert_eq!(count, 1_000);
                    sent += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    // The owner sends what the last write left unsent: until then no other thread writes.
    let drained = poll_fn(|context| match &*stream {
        Stream::Tls(session) => session.poll_drain(context),
        _ => unreachable!("this speaks TLS"),
    });
    drained.await.expect("sent");
    owner.abort();
    let _ = owner.await;
    drop(stream);
    let received = blocking(move || reader.join().expect("no panic")).await;
    assert_eq!(received.len(), PIECES as usize * 1_000);
    for (number, piece) in received.chunks(1_000).enumerate() {
        assert_eq!(piece[..4], (number as u32).to_be_bytes());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_record_is_sent_by_the_waiting_owner() {
    let (resume, may_read) = std::sync::mpsc::channel::<usize>();
    let (stream, reader) = connected(move |mut client| {
        // Reads nothing before the socket between is full.
        let total = may_read.recv().expect("a count");
        let mut received = vec![0; total];
        client.read_exact(&mut received).expect("everything");
        total
    })
    .await;
    let owner = tokio::spawn({
        let stream = stream.clone();
        async move {
            loop {
                poll_fn(|context| stream.poll_read_ready(context))
                    .await
                    .expect("no error");
                if matches!(stream.try_read(&mut [0; 64]), Ok(0)) {
                    return;
                }
            }
        }
    });
    let mut total = 0;
    while let Ok(count) = stream.try_write(&[io::IoSlice::new(&[7; 10_000])]) {
        total += count;
    }
    // No thread writes any more; only the owner's wait can send the rest.
    resume.send(total).expect("the reader waits");
    assert_eq!(
        blocking(move || reader.join().expect("everything came")).await,
        total
    );
    owner.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_nothing_delays_no_other() {
    let authority = Authority::new();
    authority.sign("localhost");
    let settings = TlsSettings {
        handshake_timeout: Period::milliseconds(50),
        ..authority.settings("localhost")
    };
    let tls = ServerTls::open(&settings, &[]).expect("certificates");
    let (acceptor, port) = acceptor();
    let listening = acceptor.listen().expect("registered");
    let _silent = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let (accepted, peer) = listening.accept().await.expect("a client");
    let outcome = tls.accept(accepted.open(peer).await.expect("open").0).await;
    assert_eq!(
        outcome.err().map(|error| error.kind()),
        Some(io::ErrorKind::TimedOut)
    );

    let mut plain = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connected");
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
    let (accepted, peer) = listening.accept().await.expect("a client");
    let outcome = tls.accept(accepted.open(peer).await.expect("open").0).await;
    assert_eq!(
        outcome.err().map(|error| error.kind()),
        Some(io::ErrorKind::InvalidData)
    );
}
