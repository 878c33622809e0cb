//! The lines of standard input, read by a thread of its own: a read cannot be given a time limit,
//! and the caller has other duties while no line comes.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Lines that are read ahead.
const LINES_MAX: usize = 64;

/// The lines without their ends. The channel closes at the end of the input.
pub(super) fn read() -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (sender, lines) = sync_channel(LINES_MAX);
    let reader = thread::Builder::new().name("input".to_owned());
    reader.spawn(move || send_lines(io::stdin().lock(), &sender))?;
    Ok(lines)
}

/// Sends lines until the input or its receiver ends.
fn send_lines(mut input: impl BufRead, lines: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut line = Vec::new();
        let sent = match input.read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => lines.send(Ok(without_end(line))),
            Err(error) => {
                let _ = lines.send(Err(error));
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

fn without_end(mut line: Vec<u8>) -> Vec<u8> {
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bytes_without_their_ends() {
        let (sender, lines) = sync_channel(LINES_MAX);
        send_lines(&b"one\r\n\xff\n\nlast"[..], &sender);
        drop(sender);
        let lines: Vec<Vec<u8>> = lines.iter().map(|line| line.expect("read")).collect();
        assert_eq!(lines, [&b"one"[..], b"\xff", b"", b"last"]);
    }
}
