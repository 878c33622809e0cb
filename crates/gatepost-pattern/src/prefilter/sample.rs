//! Frequencies of words: a sample of ordinary mail.
//!
//! By the frequency of its bytes `your` is as rare as `zeal`. So a literal is also matched against
//! a sample of the most common words, and its frequency there counts. The offsets at which a match
//! may end are a bit set, so a match costs a few operations for each position of the literal.

use std::sync::LazyLock;

use crate::byte_set::ByteSet;
use crate::syntax::Node;

/// A page of ordinary mail: common words, common HTML, and at the end a relay as SpamAssassin's
/// pseudo headers of relays describe it.
pub const SAMPLE_TEXT: &str = "\
Hello, this is your message. You have been sent the report that we made for you; please click here \
to see it on our web site, or just reply to this email with your name and address. If you would \
like more information about the new service, call me at any time, day or night. I want to thank \
you for all of your help: it was good to know what the other people think, and how much time we \
will need before the end of the year. There is no cost, no obligation, and your order is free when \
you pay by credit card within 30 days! They said they can do the work in two weeks, from Monday to \
Friday; if you are interested, send money back to your friends and get 100% off the first month. \
Do not wait, act now. To unsubscribe from this mailing list, visit http://www.example.com/list/ \
or send a mail to list-request@lists.example.net. Our company has been making this offer to every \
user since 1998, so let us know where you would like to go from here: your account, your business, \
personal computer, home or office phone number. The next version should also use the same code \
which I could not find in the system; my problem was only with the last line of the file, but it \
does work well after that. On Tue, Aug 20, 2002 at 10:15:32AM -0400, John Smith wrote: > I don't \
think it's right, but there are some good things to be said about how these people use their own \
email. We must make sure that all information is available over the internet to anyone who asks. \
Copyright (c) 2002 All rights reserved. Best regards, <html><head><title>Message</title></head> \
<body bgcolor=\"#FFFFFF\"><table width=\"100%\" border=\"0\" cellpadding=\"0\" \
cellspacing=\"0\"><tr> <td align=\"center\"><font face=\"Arial, Helvetica, sans-serif\" size=\"2\" \
color=\"#000000\"><b>&nbsp;</b> </font></td></tr></table><a \
href=\"http://www.example.com/index.html\"><img src=\"images/logo.gif\" \
alt=\"\"></a><br><p>-----------------------------------------------------------------------</p> [ \
ip=192.0.2.25 rdns=out.example.com helo=out.example.com by=example.org ident= envfrom= intl=0 \
id=4F1A22C0D3 auth= msa=0 ] ";
/// Words of a bit set with a bit for each offset of the sample, and one for its end.
const WORDS: usize = 33;

type Bits = [u64; WORDS];

/// By byte: the offsets after its occurrences in the sample.
static AFTER_BYTE: LazyLock<Box<[Bits; 256]>> = LazyLock::new(|| {
    let mut after = Box::new([[0; WORDS]; 256]);
    for (offset, byte) in SAMPLE_TEXT.bytes().enumerate() {
        let bits = &mut after[usize::from(byte)];
        bits[(offset + 1) / 64] |= 1 << ((offset + 1) % 64);
    }
    after
});

/// The offsets of the sample at which a match of some nodes may end.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampleMatches(Bits);

impl SampleMatches {
    /// The matches of no node.
    pub(super) const EVERYWHERE: Self = {
        let mut bits = [u64::MAX; WORDS];
        bits[WORDS - 1] = (1 << (SAMPLE_TEXT.len() % 64 + 1)) - 1;
        Self(bits)
    };

    /// The share of all offsets at which a match ends.
    pub(super) fn probability(&self) -> f32 {
        let ends: u32 = self.0.iter().map(|word| word.count_ones()).sum();
        ends as f32 / SAMPLE_TEXT.len() as f32
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// The matches of the same nodes with one more after them.
    pub(super) fn after(&self, node: &Node) -> Self {
        if self.is_empty() {
            return *self;
        }
        match node {
            Node::Byte(set) => self.after_byte(set),
            Node::Concat(parts) => parts.iter().fold(*self, |ends, part| ends.after(part)),
            Node::Alternate(branches) | Node::BranchReset(branches) => branches
                .iter()
                .fold(Self([0; WORDS]), |all, branch| all.or(&self.after(branch))),
            Node::Repeat {
                inner, min, max, ..
            } => {
                let (mut all, mut ends) = (Self([0; WORDS]), *self);
                let rounds = max.map_or(SAMPLE_TEXT.len(), |max| max as usize);
                for round in 0..=rounds {
                    if round >= *min as usize {
                        all = all.or(&ends);
                    }
                    if round == rounds || ends.is_empty() {
                        break;
                    }
                    ends = ends.after(inner);
                }
                all
            }
            Node::Capture { inner, .. } | Node::Atomic(inner) => self.after(inner),
            _ => *self,
        }
    }

    fn after_byte(&self, set: &ByteSet) -> Self {
        let after_any = |set: &ByteSet| {
            let mut after = [0; WORDS];
            for byte in set.iter() {
                for (all, one) in after.iter_mut().zip(&AFTER_BYTE[usize::from(byte)]) {
                    *all |= one;
                }
            }
            after
        };
        let mut after = if set.len() <= 128 {
            after_any(set)
        } else {
            after_any(&set.complement()).map(|word| !word)
        };
        // The complement has bits beyond the end of the sample.
        if let Some(last) = after.last_mut() {
            *last &= (1 << (SAMPLE_TEXT.len() % 64 + 1)) - 1;
        }
        let mut carry = 0;
        for (all, &word) in after.iter_mut().zip(&self.0) {
            *all &= (word << 1) | carry;
            carry = word >> 63;
        }
        Self(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(pattern: &str) -> usize {
        let tree = crate::syntax::parse_delimited(pattern);
        let ends = SampleMatches::EVERYWHERE.after(&tree);
        ends.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    #[test]
    fn the_sample_fits() {
        assert!(SAMPLE_TEXT.len() < WORDS * 64, "{}", SAMPLE_TEXT.len());
    }

    #[test]
    fn words_are_counted() {
        let count = |word: &str| SAMPLE_TEXT.to_ascii_lowercase().matches(word).count();
        assert_eq!(ends("/your /i"), count("your "));
        assert_eq!(ends("/th(?:e|is) /i"), count("the ") + count("this "));
        assert_eq!(ends("/y[o0]u?r?r /"), count("your "));
        assert_eq!(ends("/-{60}>/"), 0);
        assert_eq!(ends("/-{60}</"), 1);
        assert_eq!(ends("/zeal/"), 0);
    }
}
