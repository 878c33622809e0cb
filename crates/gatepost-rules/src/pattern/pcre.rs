//! PCRE2, called so that a search costs no more than the search.
//!
//! A scan makes some hundred short searches. What a search needs besides the pattern (the match
//! block, the match context, the stack of compiled code) is therefore made once for each thread and
//! serves all patterns, and compiled code is entered directly.
//!
//! Invariants, on which the `unsafe` blocks rest:
//! - A [`Code`] owns its pattern: nothing else frees it, and after [`Code::compile`] nothing writes
//!   to it. PCRE2 allows any number of threads to match with one pattern at a time, so `Code` is
//!   `Send` and `Sync`.
//! - A [`Scratch`] never leaves its thread, and no search starts another (there are no callouts), so
//!   its parts have one user at a time. They are freed in the order in which they use each other.
//! - No pattern has UTF mode, so a text may hold any bytes and a search may begin at any of them.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

use pcre2_sys as sys;

/// Memory that an interpreted search may take to backtrack, in KiB.
const HEAP_KIB_MAX: u32 = 20_000;
/// The stack of compiled patterns, per thread, in bytes: at first, and at most.
const STACK_BYTES: (usize, usize) = (32 * 1024, 1024 * 1024);
/// Where an empty text lies: native code looks at whole blocks of memory.
static NOTHING: [u8; 64] = [0; 64];
/// The longest text of an error.
const ERROR_BYTES_MAX: usize = 256;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Code {
    code: NonNull<sys::pcre2_code_8>,
    is_native: bool,
}

// SAFETY: see the module's first invariant.
unsafe impl Send for Code {}
// SAFETY: as above; matching only reads the pattern.
unsafe impl Sync for Code {}

/// PCRE2's number of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Error(i32);

impl Error {
    const MEMORY: Self = Self(sys::PCRE2_ERROR_NOMEMORY);
    /// A place took all the steps that were allowed.
    pub(super) const STEPS: Self = Self(sys::PCRE2_ERROR_MATCHLIMIT);
    /// A pattern whose compiled form would pass 64 KB.
    pub(super) const TOO_LARGE: Self = Self(sys::PCRE2_ERROR_PATTERN_TOO_LARGE as i32);
}

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = [0u8; ERROR_BYTES_MAX];
        // SAFETY: the buffer is valid for the length that is given with it.
        let length =
            unsafe { sys::pcre2_get_error_message_8(self.0, text.as_mut_ptr(), text.len()) };
        let length = usize::try_from(length).unwrap_or(0);
        let text = text.get(..length).unwrap_or_default();
        formatter.write_str(&String::from_utf8_lossy(text))
    }
}

/// What a pattern is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The first match at or after a place.
    Search,
    /// A match that begins at a place.
    MatchAtPlace,
}

impl Code {
    pub(super) fn compile(pattern: &str, purpose: Use) -> Result<Self, Error> {
        let (mut error, mut offset) = (0, 0);
        let anchored = match purpose {
            Use::Search => 0,
            Use::MatchAtPlace => sys::PCRE2_ANCHORED,
        };
        let options = sys::PCRE2_DOTALL | sys::PCRE2_NEVER_UTF | anchored;
        // SAFETY: the pattern is valid for its length; the two places outlive the call; a null
        // context means the defaults.
        let code = unsafe {
            sys::pcre2_compile_8(
                pattern.as_ptr(),
                pattern.len(),
                options,
                &raw mut error,
                &raw mut offset,
                ptr::null_mut(),
            )
        };
        let code = NonNull::new(code).ok_or(Error(error))?;
        // SAFETY: the pattern was just made and nobody else has it. Where there is no compiler for
        // this machine the call says so and the pattern is interpreted.
        let outcome = unsafe { sys::pcre2_jit_compile_8(code.as_ptr(), sys::PCRE2_JIT_COMPLETE) };
        Ok(Self {
            code,
            is_native: outcome == 0,
        })
    }

    /// The first match that begins at or after `start`, or just at `start`. At each place at most
    /// `steps_max` steps of backtracking are taken.
    pub(super) fn search(
        &self,
        text: &[u8],
        start: usize,
        steps_max: u32,
    ) -> Result<Option<(usize, usize)>, Error> {
        if start > text.len() {
            return Ok(None);
        }
        SCRATCH.with(|scratch| match scratch {
            Some(scratch) => scratch.search(self, text, start, steps_max),
            None => Err(Error::MEMORY),
        })
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the pattern is owned, and nobody can search with it any more.
        unsafe { sys::pcre2_code_free_8(self.code.as_ptr()) }
    }
}

thread_local! {
    static SCRATCH: Option<Scratch> = Scratch::new();
}

/// What a thread needs to search.
struct Scratch {
    found: NonNull<sys::pcre2_match_data_8>,
    context: NonNull<sys::pcre2_match_context_8>,
    stack: NonNull<sys::pcre2_jit_stack_8>,
}

impl Scratch {
    fn new() -> Option<Self> {
        // SAFETY: null contexts mean the defaults; each result is checked before it is used; what
        // was made before a failure is small and lost once for a thread at most.
        unsafe {
            // One pair: where a match begins and ends. Groups are not asked for.
            let found = NonNull::new(sys::pcre2_match_data_create_8(1, ptr::null_mut()))?;
            let context = NonNull::new(sys::pcre2_match_context_create_8(ptr::null_mut()))?;
            let (least, most) = STACK_BYTES;
            let stack = sys::pcre2_jit_stack_create_8(least, most, ptr::null_mut());
            let stack = NonNull::new(stack)?;
            sys::pcre2_jit_stack_assign_8(context.as_ptr(), None, stack.as_ptr().cast());
            sys::pcre2_set_heap_limit_8(context.as_ptr(), HEAP_KIB_MAX);
            Some(Self {
                found,
                context,
                stack,
            })
        }
    }

    /// `start` lies in the text or at its end.
    fn search(
        &self,
        code: &Code,
        text: &[u8],
        start: usize,
        steps_max: u32,
    ) -> Result<Option<(usize, usize)>, Error> {
        let search = if code.is_native {
            sys::pcre2_jit_match_8
        } else {
            sys::pcre2_match_8
        };
        // SAFETY: pattern, match block and context are alive and used by this call only; the text is
        // valid for its length, `start` does not pass its end, and there is no UTF to be checked. The
        // pattern has native code wherever that is entered directly.
        let text_start = if text.is_empty() {
            NOTHING.as_ptr()
        } else {
            text.as_ptr()
        };
        let outcome = unsafe {
            sys::pcre2_set_match_limit_8(self.context.as_ptr(), steps_max);
            search(
                code.code.as_ptr(),
                text_start,
                text.len(),
                start,
                0,
                self.found.as_ptr(),
                self.context.as_ptr(),
            )
        };
        if outcome == sys::PCRE2_ERROR_NOMATCH {
            return Ok(None);
        }
        // 0 says that there were more groups than there is room for.
        if outcome < 0 {
            return Err(Error(outcome));
        }
        // SAFETY: after a match the block's first pair is set.
        let (from, to) = unsafe {
            let pair = sys::pcre2_get_ovector_pointer_8(self.found.as_ptr());
            (*pair, *pair.add(1))
        };
        // With `\K` in a look ahead the start may lie behind the end.
        Ok(Some((from.min(to), to)))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: all three are owned; the context, which knows the stack, goes first.
        unsafe {
            sys::pcre2_match_context_free_8(self.context.as_ptr());
            sys::pcre2_match_data_free_8(self.found.as_ptr());
            sys::pcre2_jit_stack_free_8(self.stack.as_ptr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_sees_what_stands_before_its_start() {
        let pattern = "(?<=x)a|\\bb";
        let code = Code::compile(pattern, Use::Search).unwrap();
        assert_eq!(code.search(b"xa cb b", 1, 1000), Ok(Some((1, 2))));
        assert_eq!(code.search(b"xa cb b", 2, 1000), Ok(Some((6, 7))));
        assert_eq!(code.search(b"xa", 3, 1000), Ok(None));
        let code = Code::compile(pattern, Use::MatchAtPlace).unwrap();
        assert_eq!(code.search(b"xa cb b", 1, 1000), Ok(Some((1, 2))));
        assert_eq!(code.search(b"xa cb b", 2, 1000), Ok(None));
    }

    #[test]
    fn steps_have_a_limit() {
        let code = Code::compile("(?:a|aa)+$", Use::Search).unwrap();
        let text = [&[b'a'; 25][..], b"!"].concat();
        assert_eq!(code.search(&text, 0, 1000), Err(Error::STEPS));
        assert_eq!(code.search(&text, 0, 10_000_000), Ok(None));
    }

    #[test]
    fn errors_have_words() {
        let error = Code::compile("(", Use::Search).unwrap_err();
        assert!(error.to_string().contains("parenthesis"), "{error}");
    }
}
