//! ImageInfo: the size of attached images.

use super::ScannedMail;
use super::{Entry, bound};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("image_count", |arguments| {
        let (kind, range) = (kind(arguments.text(0)?)?, arguments.range(1)?);
        bound(move |mail| range.holds_between(images(mail).of(kind).count() as f64))
    }),
    ("pixel_coverage", |arguments| {
        let (kind, range) = (kind(arguments.text(0)?)?, arguments.range(1)?);
        bound(move |mail| range.holds_between(images(mail).pixels(kind) as f64))
    }),
    ("image_to_text_ratio", |arguments| {
        let kind = kind(arguments.text(0)?)?;
        let (low, high) = (arguments.number(1)?, arguments.number(2)?);
        bound(move |mail| {
            let (pixels, letters) = (images(mail).pixels(kind), mail.body().text().len());
            let ratio = letters as f64 / pixels as f64;
            pixels > 0 && letters > 0 && ratio >= low && ratio < high
        })
    }),
    ("image_size_exact", |arguments| {
        let (kind, height, width) = (
            kind(arguments.text(0)?)?,
            arguments.number(1)? as u32,
            arguments.number(2)? as u32,
        );
        bound(move |mail| {
            images(mail)
                .measured(kind)
                .any(|image| image.height == height && image.width == width)
        })
    }),
    ("image_size_range", |arguments| {
        let kind = kind(arguments.text(0)?)?;
        let low = (arguments.number(1)?, arguments.number(2)?);
        let high = (arguments.limit(3)?, arguments.limit(4)?);
        bound(move |mail| {
            images(mail).measured(kind).any(|image| {
                let (height, width) = (f64::from(image.height), f64::from(image.width));
                height >= low.0
                    && width >= low.1
                    && high.0.is_none_or(|high| height <= high)
                    && high.1.is_none_or(|high| width <= high)
            })
        })
    }),
    ("image_named", |arguments| {
        let name = arguments.text(0)?.as_bytes().to_vec();
        bound(move |mail| {
            images(mail)
                .measured(None)
                .any(|image| image.name.as_ref() == Some(&name))
        })
    }),
    ("image_name_regex", |arguments| {
        let pattern = arguments.bare_pattern(0)?;
        bound(move |mail| {
            images(mail).measured(None).any(|image| {
                image
                    .name
                    .as_ref()
                    .is_some_and(|name| pattern.is_match(name))
            })
        })
    }),
];

/// A format of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImageFormat {
    Gif,
    Png,
    Jpeg,
}

fn kind(name: &str) -> Result<Option<ImageFormat>, String> {
    match name {
        "all" => Ok(None),
        "gif" => Ok(Some(ImageFormat::Gif)),
        "png" => Ok(Some(ImageFormat::Png)),
        "jpeg" | "jpg" => Ok(Some(ImageFormat::Jpeg)),
        other => Err(format!("{other} is not a known image format")),
    }
}

#[derive(Clone, Debug)]
struct AttachedImage {
    kind: ImageFormat,
    /// Pixels; 0 if the size cannot be read.
    height: u32,
    width: u32,
    name: Option<Vec<u8>>,
}

/// The attached images.
#[derive(Clone, Debug, Default)]
pub(super) struct AttachedImages(Vec<AttachedImage>);

impl AttachedImages {
    fn of(&self, kind: Option<ImageFormat>) -> impl Iterator<Item = &AttachedImage> {
        self.0
            .iter()
            .filter(move |image| kind.is_none_or(|kind| kind == image.kind))
    }

    fn measured(&self, kind: Option<ImageFormat>) -> impl Iterator<Item = &AttachedImage> {
        self.of(kind)
            .filter(|image| image.height > 0 && image.width > 0)
    }

    fn pixels(&self, kind: Option<ImageFormat>) -> u64 {
        self.of(kind)
            .map(|image| u64::from(image.height) * u64::from(image.width))
            .sum()
    }
}

fn images<'a>(mail: &'a ScannedMail<'_>) -> &'a AttachedImages {
    mail.findings()
        .images
        .get_or_init(|| AttachedImages(find(mail)))
}

fn find(mail: &ScannedMail<'_>) -> Vec<AttachedImage> {
    let leaves = mail.parts().leaves();
    let attached = leaves.filter_map(|part| {
        let kind = match part.media_type.as_str() {
            "image/gif" => ImageFormat::Gif,
            "image/png" => ImageFormat::Png,
            "image/jpeg" | "image/jpg" => ImageFormat::Jpeg,
            _ => return None,
        };
        let encoding = part.field(b"content-transfer-encoding").unwrap_or_default();
        if !encoding.eq_ignore_ascii_case(b"base64") {
            return None;
        }
        let data = part.decoded();
        let (height, width) = match kind {
            ImageFormat::Gif => gif_size(data),
            ImageFormat::Png => png_size(data),
            ImageFormat::Jpeg => jpeg_size(data),
        }
        .unwrap_or((0, 0));
        Some(AttachedImage {
            kind,
            height,
            width,
            name: part.name.clone(),
        })
    });
    attached.collect()
}

fn big_endian(data: &[u8], at: usize, length: usize) -> Option<u32> {
    Some(
        data.get(at..at + length)?
            .iter()
            .fold(0, |value, &byte| value << 8 | u32::from(byte)),
    )
}

/// GIF89a specification, section 18: the logical screen.
fn gif_size(data: &[u8]) -> Option<(u32, u32)> {
    let screen = data
        .strip_prefix(b"GIF87a")
        .or_else(|| data.strip_prefix(b"GIF89a"))?;
    let side = |at: usize| {
        Some(u32::from(u16::from_le_bytes([
            *screen.get(at)?,
            *screen.get(at + 1)?,
        ])))
    };
    Some((side(2)?, side(0)?))
}

/// PNG specification, section 11.2.2: the header chunk, which comes first.
fn png_size(data: &[u8]) -> Option<(u32, u32)> {
    let chunks = data.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let header = memchr::memmem::find(chunks.get(..chunks.len().min(4096))?, b"\0\0\0\x0dIHDR")?;
    (header % 8 == 0).then_some(())?;
    Some((
        big_endian(chunks, header + 12, 4)?,
        big_endian(chunks, header + 8, 4)?,
    ))
}

/// ITU-T T.81, section B.2.2: the frame header.
fn jpeg_size(data: &[u8]) -> Option<(u32, u32)> {
    let mut at = data.starts_with(b"\xff\xd8").then_some(2)?;
    loop {
        let (&prefix, &marker) = (data.get(at)?, data.get(at + 1)?);
        let length = big_endian(data, at + 2, 2)? as usize;
        if prefix != 0xff || matches!(marker, 0xd9 | 0xda) || length < 2 {
            return None;
        }
        if matches!(marker, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf) {
            return Some((big_endian(data, at + 5, 2)?, big_endian(data, at + 7, 2)?));
        }
        at += 2 + length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(gif_size(b"GIF89a\x02\x00\x03\x00\x00"), Some((3, 2)));
        assert_eq!(
            png_size(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x02\0\0\0\x03"),
            Some((3, 2))
        );
        assert_eq!(
            jpeg_size(b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x03\0\x02\x01"),
            Some((3, 2))
        );
        assert_eq!(jpeg_size(b"\xff\xd8\xff\xe0\xff"), None);
    }
}
