//! Passwords from people and from scripts; never from the command line, which every process of
//! the machine can read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};

use gatepost_users::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

#[derive(Debug, thiserror::Error)]
pub(super) enum PasswordError {
    #[error("{path}: {cause}")]
    File { path: String, cause: io::Error },
    #[error("{0}")]
    Input(#[from] io::Error),
    #[error("there is none")]
    Empty,
    #[error("the two differ")]
    Differ,
}

/// The source of the password.
#[derive(Debug)]
pub(super) enum PasswordSource {
    File(PathBuf, File),
    /// The first line of standard input.
    Input,
    /// Standard input, or a person at the terminal.
    Standard,
    /// A password that is read already.
    Known(Secret),
}

impl PasswordSource {
    /// Opens the file that this argument names; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Self, PasswordError> {
        if path == Path::new("-") {
            return Ok(Self::Input);
        }
        match File::open(path) {
            Ok(file) => Ok(Self::File(path.to_owned(), file)),
            Err(cause) => Err(file_error(path, cause)),
        }
    }

    /// Reads the password for `name`: from a file's first line, from a pipe's, or by prompting
    /// twice.
    pub(super) fn read(self, name: &str) -> Result<Secret, PasswordError> {
        let stdin = io::stdin();
        let line = match self {
            Self::Known(password) => return Ok(password),
            Self::File(path, file) => {
                first_line(BufReader::new(file)).map_err(|cause| file_error(&path, cause))?
            }
            Self::Standard if stdin.is_terminal() => return prompt_twice(name),
            Self::Input | Self::Standard => first_line(stdin.lock())?,
        };
        if line.expose().is_empty() {
            return Err(PasswordError::Empty);
        }
        Ok(line)
    }
}

fn file_error(path: &Path, cause: io::Error) -> PasswordError {
    PasswordError::File {
        path: path.display().to_string(),
        cause,
    }
}

fn first_line(mut reader: impl BufRead) -> io::Result<Secret> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let length = line.trim_end_matches(['\r', '\n']).len();
    line.truncate(length);
    Ok(Secret::new(line))
}

fn prompt_twice(name: &str) -> Result<Secret, PasswordError> {
    let _hidden = HiddenInput::start()?;
    let first = prompt(&format!("Password for {name}: "))?;
    if first.expose().is_empty() {
        return Err(PasswordError::Empty);
    }
    let again = prompt("Once more: ")?;
    if first == again {
        Ok(first)
    } else {
        Err(PasswordError::Differ)
    }
}

fn prompt(question: &str) -> io::Result<Secret> {
    let mut terminal = io::stderr();
    write!(terminal, "{question}")?;
    terminal.flush()?;
    let line = first_line(io::stdin().lock());
    writeln!(terminal)?;
    line
}

/// A terminal that does not show what is typed, until dropped.
struct HiddenInput(Termios);

impl HiddenInput {
    fn start() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_without_its_end() {
        for text in ["secret", "secret\n", "secret\r\n", "secret\nmore\n"] {
            let read = first_line(text.as_bytes()).expect("a line");
            assert_eq!(read.expose(), "secret", "{text:?}");
        }
        let spaced = first_line(&b" with spaces \n"[..]).expect("a line");
        assert_eq!(spaced.expose(), " with spaces ");
    }
}
