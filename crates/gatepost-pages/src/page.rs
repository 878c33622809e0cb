//! A page ready to be rendered.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::PageReply;

use crate::engine::Engine;
use crate::error::TemplateError;
use crate::gzip::{self, JoinedMembers};
use crate::insertion::{PageNeeds, RenderContext};
use crate::memory_file::{MemoryFile, recounted};
use crate::template::TemplateNode;
use crate::values::ValueSource;

/// The destination of a page's pieces: shared bytes by reference, values by copy.
pub trait PageOutput {
    /// Appends bytes without copying them.
    fn shared(&mut self, bytes: &Bytes);

    /// Appends bytes that are also in `file`, from `start` on.
    fn filed(&mut self, bytes: &Bytes, _file: &Arc<MemoryFile>, _start: u64) {
        self.shared(bytes);
    }

    /// Appends the output of `write`.
    fn text(&mut self, write: impl FnOnce(&mut Vec<u8>));
}

/// A page's compiled form.
#[derive(Debug)]
pub enum CompiledPage {
    /// Static slices and insertion points.
    Pieces(PageSegments),
    /// Rendered by the template engine.
    Engine(Arc<Engine>),
    /// The template contains an error.
    Broken(TemplateError),
}

/// Static slices and insertion points, in order.
#[derive(Debug)]
pub struct PageSegments {
    all: Vec<TemplateNode>,
    /// The compressed static pieces; `None` if compression is not worthwhile.
    compressed: Option<Vec<gzip::CompressedPart>>,
    /// The page's source in a file in memory, if a static piece is long.
    file: Option<Arc<MemoryFile>>,
    needs: PageNeeds,
}

impl PageSegments {
    /// Compresses the static text once, if there are `compress_min` bytes of it.
    pub(crate) fn new(pieces: Vec<TemplateNode>, compress_min: Option<usize>) -> Self {
        let mut needs = PageNeeds::default();
        let mut bytes = 0;
        for piece in &pieces {
            match piece {
                TemplateNode::Static(text) => bytes += text.len(),
                TemplateNode::Insertion(insertion) => {
                    let more = insertion.needs();
                    needs.worker |= more.worker;
                    needs.request |= more.request;
                }
            }
        }
        let statics = pieces.iter().filter_map(|piece| match piece {
            TemplateNode::Static(text) => Some(gzip::CompressedPart::new(text)),
            TemplateNode::Insertion(_) => None,
        });
        let compressed = compress_min
            .filter(|min| bytes >= *min)
            .and_then(|_| statics.collect());
        Self {
            all: pieces,
            compressed,
            file: None,
            needs,
        }
    }

    /// A copy with reference counts of its own.
    pub(crate) fn unshared_copy(&self) -> Self {
        let all = self.all.iter().map(|piece| match piece {
            TemplateNode::Static(text) => TemplateNode::Static(recounted(text)),
            insertion @ TemplateNode::Insertion(_) => insertion.clone(),
        });
        let compressed = self.compressed.as_ref();
        Self {
            all: all.collect(),
            compressed: compressed.map(|pieces| {
                pieces
                    .iter()
                    .map(gzip::CompressedPart::unshared_copy)
                    .collect()
            }),
            file: self.file.clone(),
            needs: self.needs,
        }
    }

    /// The same page, with its static pieces also in a file in memory that contains them.
    pub(crate) fn filed(mut self, make: impl FnOnce(usize) -> Option<Arc<MemoryFile>>) -> Self {
        let statics = self.all.iter().filter_map(|piece| match piece {
            TemplateNode::Static(text) => Some(text.len()),
            TemplateNode::Insertion(_) => None,
        });
        self.file = make(statics.max().unwrap_or_default());
        self
    }

    /// Its memory in addition to its source.
    pub(crate) fn filed_bytes(&self) -> usize {
        self.file.as_deref().map_or(0, MemoryFile::length)
    }

    /// Its requirements other than memory.
    pub const fn needs(&self) -> PageNeeds {
        self.needs
    }

    /// Whether it may be sent with gzip.
    pub const fn is_compressed(&self) -> bool {
        self.compressed.is_some()
    }

    /// Renders pages that need only memory.
    pub fn render_at_once(
        &self,
        values: &dyn ValueSource,
        with_gzip: bool,
        output: &mut impl PageOutput,
    ) {
        self.render(with_gzip, output, |piece, text| {
            if let TemplateNode::Insertion(insertion) = piece {
                insertion.push(text, values);
            }
        });
    }

    /// Makes the text of every insertion point. If a worker is needed, this must run on one.
    pub(crate) fn fill(&self, context: &RenderContext<'_>) -> InsertionTexts {
        let mut filled = InsertionTexts::default();
        for piece in &self.all {
            if let TemplateNode::Insertion(insertion) = piece {
                insertion.push_for(&mut filled.text, context, &mut filled.reply);
                filled.ends.push(filled.text.len());
            }
        }
        filled.session = context.request.session.new_name().map(str::to_owned);
        filled
    }

    /// Inserts the texts between the static bytes.
    pub fn render_filled(
        &self,
        filled: &InsertionTexts,
        with_gzip: bool,
        output: &mut impl PageOutput,
    ) {
        let mut texts = filled.texts();
        self.render(with_gzip, output, |_, text| {
            text.extend_from_slice(texts.next().unwrap_or_default());
        });
    }

    fn render(
        &self,
        with_gzip: bool,
        output: &mut impl PageOutput,
        mut push: impl FnMut(&TemplateNode, &mut Vec<u8>),
    ) {
        let Some(compressed) = self.compressed.as_ref().filter(|_| with_gzip) else {
            for piece in &self.all {
                match piece {
                    TemplateNode::Static(bytes) => push_static(bytes, self.file.as_ref(), output),
                    insertion @ TemplateNode::Insertion(_) => {
                        output.text(|text| push(insertion, text));
                    }
                }
            }
            return;
        };
        let mut joining = JoinedMembers::default();
        output.text(|text| joining = JoinedMembers::begin(text));
        let mut compressed = compressed.iter();
        for piece in &self.all {
            match piece {
                TemplateNode::Static(_) => {
                    if let Some(piece) = compressed.next() {
                        joining.add(piece);
                        output.shared(&piece.deflated);
                    }
                }
                insertion @ TemplateNode::Insertion(_) => {
                    output.text(|text| joining.store(text, |text| push(insertion, text)));
                }
            }
        }
        output.text(|text| joining.end(text));
    }
}

/// Appends bytes, from the file in memory if that is worthwhile.
pub fn push_static(bytes: &Bytes, file: Option<&Arc<MemoryFile>>, output: &mut impl PageOutput) {
    let filed = file.and_then(|file| Some((file, file.place_of(bytes)?)));
    match filed {
        Some((file, start)) => output.filed(bytes, file, start),
        None => output.shared(bytes),
    }
}

/// The texts of a page's insertion points, which a page worker returns. The static bytes are not
/// moved.
#[derive(Debug, Default)]
pub struct InsertionTexts {
    text: Vec<u8>,
    /// The end of each in `text`.
    ends: Vec<usize>,
    /// The procedures' changes to the response.
    pub reply: PageReply,
    /// The session to set in the browser.
    pub session: Option<String>,
}

impl InsertionTexts {
    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let text = self.text.get(start..end).unwrap_or_default();
            start = end;
            text
        })
    }

    /// Whether the response has no such changes: it is an ordinary page.
    pub fn is_ordinary(&self) -> bool {
        self.session.is_none() && self.reply.is_empty()
    }
}

/// A rendered page.
#[derive(Debug, Default)]
pub struct RenderedPage {
    /// In order; static ones are shared with the page.
    pub pieces: Vec<Bytes>,
    /// Whether they are gzip.
    pub with_gzip: bool,
    /// Whether they could have been compressed: then caches must distinguish clients.
    pub varies: bool,
    /// The procedures' changes to the response.
    pub reply: PageReply,
    /// The session to set in the browser.
    pub session: Option<String>,
    /// Whether it was made for one request, so that caches must not share it.
    pub personal: bool,
}

impl PageOutput for RenderedPage {
    fn shared(&mut self, bytes: &Bytes) {
        self.pieces.push(bytes.clone());
    }

    fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut text = Vec::new();
        write(&mut text);
        self.pieces.push(Bytes::from(text));
    }
}
