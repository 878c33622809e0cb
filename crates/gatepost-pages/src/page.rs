//! A page ready to be rendered.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::{Engine, TemplateError};
use crate::insertion::Insertion;
use crate::template::Piece;
use crate::values::Values;

/// Where the pieces of a page go: shared bytes by reference, values by copy.
pub trait Sink {
    /// Appends bytes without copying them.
    fn shared(&mut self, bytes: &Bytes);

    /// Appends what `write` appends to a buffer.
    fn text(&mut self, write: impl FnOnce(&mut Vec<u8>));
}

/// A page's compiled form.
#[derive(Debug)]
pub enum Page {
    /// Static slices and insertion points.
    Pieces {
        /// In order.
        pieces: Vec<Piece>,
        /// Whether a value must be waited for.
        waits: bool,
    },
    /// Rendered by the template engine.
    Engine(Arc<Engine>),
    /// Its template is faulty.
    Broken(TemplateError),
}

impl Page {
    /// A page of slices and insertion points.
    pub fn from_pieces(pieces: Vec<Piece>) -> Self {
        let waits = pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Insertion(insertion) if insertion.waits()));
        Self::Pieces { pieces, waits }
    }

    /// Renders into `sink` and returns true, if that takes neither waiting nor the template
    /// engine. Otherwise leaves `sink` as it is.
    pub fn render_at_once(&self, values: &dyn Values, sink: &mut impl Sink) -> bool {
        let Self::Pieces {
            pieces,
            waits: false,
        } = self
        else {
            return false;
        };
        for piece in pieces {
            match piece {
                Piece::Static(bytes) => sink.shared(bytes),
                Piece::Insertion(insertion) => sink.text(|text| insertion.push(text, values)),
            }
        }
        true
    }

    /// Renders pieces of which some wait for a procedure.
    pub(crate) async fn render_waiting(pieces: &[Piece], values: &dyn Values) -> Rendered {
        let mut rendered = Rendered {
            pieces: Vec::with_capacity(pieces.len()),
        };
        for piece in pieces {
            match piece {
                Piece::Static(bytes) => rendered.shared(bytes),
                Piece::Insertion(Insertion::Call { path, arguments }) => {
                    let answer = values.call(path, arguments).await;
                    rendered.text(|text| Insertion::push_answer(text, answer));
                }
                Piece::Insertion(insertion) => {
                    rendered.text(|text| insertion.push(text, values));
                }
            }
        }
        rendered
    }
}

/// A rendered page.
#[derive(Debug, Default)]
pub struct Rendered {
    /// In order; static ones are shared with the page.
    pub pieces: Vec<Bytes>,
}

impl Sink for Rendered {
    fn shared(&mut self, bytes: &Bytes) {
        self.pieces.push(bytes.clone());
    }

    fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut text = Vec::new();
        write(&mut text);
        self.pieces.push(Bytes::from(text));
    }
}

/// Why a page could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The template is faulty.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Too many pages wait for a worker.
    #[error("too many pages wait for a worker")]
    Busy,
    /// The page's values took longer than `time_max`.
    #[error("the page took longer than time_max")]
    Late,
    /// The page's worker failed.
    #[error("the page's worker failed")]
    Fault,
}
