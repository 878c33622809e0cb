//! Calls PCRE2 with little overhead.
//!
//! A scan makes hundreds of short searches. So the match blocks, the match context and the JIT
//! stack exist once per thread and serve all patterns, and JIT code is entered directly.
//!
//! Invariants, on which the `unsafe` blocks rest:
//! - A [`PcreCode`] owns its pattern: nothing else frees it, and after [`PcreCode::compile`]
//!   nothing writes to it. PCRE2 allows any number of threads to match with one pattern at a time,
//!   so `PcreCode` is `Send` and `Sync`.
//! - A [`Scratch`] never leaves its thread, and no search starts another (there are no callouts),
//!   so its parts have one user at a time. They are freed in the order in which they use each
//!   other.
//! - No pattern has UTF mode, so a text may hold any bytes and a search may begin at any of them.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

use pcre2_sys as sys;

/// Memory for backtracking in an interpreted search, in KiB.
const HEAP_KIB_MAX: u32 = 20_000;
/// The stack of compiled patterns, per thread, in bytes: initially, and at most.
const STACK_BYTES: (usize, usize) = (32 * 1024, 1024 * 1024);
/// The offset of a group that did not participate in a match.
const UNSET: usize = usize::MAX;
/// Represents an empty text: JIT code reads whole blocks of memory.
static NOTHING: [u8; 64] = [0; 64];
/// Groups that a search can return, with group 0.
const GROUPS_MAX: usize = 16;
/// The longest error message.
const ERROR_BYTES_MAX: usize = 256;

/// A compiled pattern.
#[derive(Debug)]
pub struct PcreCode {
    code: NonNull<sys::pcre2_code_8>,
    /// The size of the machine code; 0 if the pattern is interpreted.
    native_bytes: usize,
}

// SAFETY: see the module's first invariant.
unsafe impl Send for PcreCode {}
// SAFETY: as above; matching only reads the pattern.
unsafe impl Sync for PcreCode {}

/// An error of PCRE2, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PcreError(i32);

impl PcreError {
    const MEMORY: Self = Self(sys::PCRE2_ERROR_NOMEMORY);
    /// The match at one offset used up the permitted backtracking steps.
    pub(crate) const STEPS: Self = Self(sys::PCRE2_ERROR_MATCHLIMIT);
    /// The compiled pattern would exceed 64 KiB.
    pub(crate) const TOO_LARGE: Self = Self(sys::PCRE2_ERROR_PATTERN_TOO_LARGE as i32);
}

impl std::fmt::Display for PcreError {
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

/// The mode in which a pattern is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompileMode {
    /// Finds the first match at or after an offset, with Perl's default meaning of `.`.
    AsWritten,
    /// Finds the first match at or after an offset; `.` matches every byte.
    Search,
    /// The same without machine code, which takes longer to make than a few texts to search.
    SearchFew,
    /// Matches at an offset; `.` matches every byte.
    Anchored,
}

impl PcreCode {
    /// Compiles a pattern in PCRE2's syntax.
    pub fn compile(pattern: &str, mode: CompileMode) -> Result<Self, PcreError> {
        let (mut error, mut offset) = (0, 0);
        let options = match mode {
            CompileMode::AsWritten => 0,
            CompileMode::Search | CompileMode::SearchFew => sys::PCRE2_DOTALL,
            CompileMode::Anchored => sys::PCRE2_DOTALL | sys::PCRE2_ANCHORED,
        };
        let options = options | sys::PCRE2_NEVER_UTF;
        // SAFETY: the pattern is valid for its length; the two variables outlive the call; a null
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
        let code = NonNull::new(code).ok_or(PcreError(error))?;
        let mut code = Self {
            code,
            native_bytes: 0,
        };
        if mode != CompileMode::SearchFew {
            code.make_native();
        }
        Ok(code)
    }

    /// Compiles the pattern to machine code, if there is a compiler for this machine.
    fn make_native(&mut self) {
        // SAFETY: `&mut` excludes every other reference to the pattern, which is alive. Where there
        // is no compiler for this machine the call says so and the pattern is interpreted.
        let outcome =
            unsafe { sys::pcre2_jit_compile_8(self.code.as_ptr(), sys::PCRE2_JIT_COMPLETE) };
        let mut bytes = 0usize;
        // SAFETY: the pattern is alive, and the answer is written to a variable of its type.
        let known = unsafe {
            sys::pcre2_pattern_info_8(
                self.code.as_ptr(),
                sys::PCRE2_INFO_JITSIZE,
                (&raw mut bytes).cast(),
            )
        };
        // A pattern with `(*NO_JIT)` compiles without an error, and has no machine code.
        if outcome == 0 && known == 0 {
            self.native_bytes = bytes;
        }
    }

    /// The size of the machine code; 0 if the pattern is interpreted.
    pub(crate) fn native_bytes(&self) -> usize {
        self.native_bytes
    }

    /// The first match that starts at or after `start`, or exactly at `start` in
    /// [`CompileMode::Anchored`]. At each offset at most `steps_max` steps of backtracking are
    /// taken.
    pub fn search(
        &self,
        text: &[u8],
        start: usize,
        steps_max: u32,
    ) -> Result<Option<(usize, usize)>, PcreError> {
        let [whole] = self.search_for(text, start, steps_max, |scratch| scratch.whole)?;
        Ok(whole)
    }

    /// The same with the groups of the match; group 0 is the match. At most 16 groups.
    pub fn search_groups<const N: usize>(
        &self,
        text: &[u8],
        start: usize,
        steps_max: u32,
    ) -> Result<[Option<(usize, usize)>; N], PcreError> {
        const { assert!(N <= GROUPS_MAX) };
        self.search_for(text, start, steps_max, |scratch| scratch.groups)
    }

    fn search_for<const N: usize>(
        &self,
        text: &[u8],
        start: usize,
        steps_max: u32,
        found: impl Fn(&Scratch) -> MatchBlock,
    ) -> Result<[Option<(usize, usize)>; N], PcreError> {
        if start > text.len() {
            return Ok([None; N]);
        }
        SCRATCH.with(|scratch| match scratch {
            Some(scratch) => scratch.search(self, text, start, steps_max, found(scratch)),
            None => Err(PcreError::MEMORY),
        })
    }

    /// The number of a named group.
    pub fn group_number(&self, name: &std::ffi::CStr) -> Option<usize> {
        // SAFETY: the pattern is alive, and the name ends with a NUL.
        let number = unsafe {
            sys::pcre2_substring_number_from_name_8(self.code.as_ptr(), name.as_ptr().cast())
        };
        usize::try_from(number).ok()
    }
}

impl Drop for PcreCode {
    fn drop(&mut self) {
        // SAFETY: the pattern is owned, so no search can use it any more.
        unsafe { sys::pcre2_code_free_8(self.code.as_ptr()) }
    }
}

thread_local! {
    static SCRATCH: Option<Scratch> = Scratch::new();
}

/// The block to which PCRE2 writes the offsets of a match.
type MatchBlock = NonNull<sys::pcre2_match_data_8>;

/// The memory that the searches of a thread share.
struct Scratch {
    /// Room for one pair of offsets.
    whole: MatchBlock,
    /// Room for [`GROUPS_MAX`] pairs.
    groups: MatchBlock,
    context: NonNull<sys::pcre2_match_context_8>,
    stack: NonNull<sys::pcre2_jit_stack_8>,
}

impl Scratch {
    fn new() -> Option<Self> {
        // SAFETY: null contexts mean the defaults; each result is checked before it is used; memory
        // allocated before a failure is small and lost at most once for each thread.
        unsafe {
            let room = |pairs: usize| {
                NonNull::new(sys::pcre2_match_data_create_8(
                    pairs as u32,
                    ptr::null_mut(),
                ))
            };
            let (whole, groups) = (room(1)?, room(GROUPS_MAX)?);
            let context = NonNull::new(sys::pcre2_match_context_create_8(ptr::null_mut()))?;
            let (least, most) = STACK_BYTES;
            let stack = sys::pcre2_jit_stack_create_8(least, most, ptr::null_mut());
            let stack = NonNull::new(stack)?;
            sys::pcre2_jit_stack_assign_8(context.as_ptr(), None, stack.as_ptr().cast());
            sys::pcre2_set_heap_limit_8(context.as_ptr(), HEAP_KIB_MAX);
            Some(Self {
                whole,
                groups,
                context,
                stack,
            })
        }
    }

    /// The pairs of offsets of the first match, as far as `found` has room for them; `None` for a
    /// group that did not participate, and for all groups without a match. `start` is in the text
    /// or at its end.
    fn search<const N: usize>(
        &self,
        code: &PcreCode,
        text: &[u8],
        start: usize,
        steps_max: u32,
        found: MatchBlock,
    ) -> Result<[Option<(usize, usize)>; N], PcreError> {
        let search = if code.native_bytes > 0 {
            sys::pcre2_jit_match_8
        } else {
            sys::pcre2_match_8
        };
        // SAFETY: pattern, match block and context are alive and used by this call only; the text
        // is valid for its length, `start` does not pass its end, and there is no UTF to be
        // checked. The pattern has native code wherever that is entered directly.
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
                found.as_ptr(),
                self.context.as_ptr(),
            )
        };
        if outcome == sys::PCRE2_ERROR_NOMATCH {
            return Ok([None; N]);
        }
        if outcome < 0 {
            return Err(PcreError(outcome));
        }
        // SAFETY: the block has room for as many pairs as it states. After a match the pairs up to
        // the last group that participated are written, with a mark for each group that did not; 0
        // means that there was no room for all.
        let pairs = unsafe {
            let room = sys::pcre2_get_ovector_count_8(found.as_ptr()) as usize;
            let count = if outcome == 0 { room } else { outcome as usize };
            let pairs = sys::pcre2_get_ovector_pointer_8(found.as_ptr());
            std::slice::from_raw_parts(pairs.cast::<[usize; 2]>(), count.min(room))
        };
        // With `\K` in a look ahead the start may lie after the end.
        let pair = |&[from, to]: &[usize; 2]| (to != UNSET).then_some((from.min(to), to));
        Ok(std::array::from_fn(|group| pairs.get(group).and_then(pair)))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: all three are owned; the context, which refers to the stack, is freed first.
        unsafe {
            sys::pcre2_match_context_free_8(self.context.as_ptr());
            sys::pcre2_match_data_free_8(self.whole.as_ptr());
            sys::pcre2_match_data_free_8(self.groups.as_ptr());
            sys::pcre2_jit_stack_free_8(self.stack.as_ptr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_considers_the_text_before_its_start() {
        let pattern = "(?<=x)a|\\bb";
        let code = PcreCode::compile(pattern, CompileMode::Search).unwrap();
        assert_eq!(code.search(b"xa cb b", 1, 1000), Ok(Some((1, 2))));
        assert_eq!(code.search(b"xa cb b", 2, 1000), Ok(Some((6, 7))));
        assert_eq!(code.search(b"xa", 3, 1000), Ok(None));
        let code = PcreCode::compile(pattern, CompileMode::Anchored).unwrap();
        assert_eq!(code.search(b"xa cb b", 1, 1000), Ok(Some((1, 2))));
        assert_eq!(code.search(b"xa cb b", 2, 1000), Ok(None));
    }

    #[test]
    fn a_pattern_for_few_texts_has_no_machine_code() {
        let pattern = "a.{2,9}b";
        let searched = |mode| {
            let code = PcreCode::compile(pattern, mode).unwrap();
            (code.native_bytes() > 0, code.search(b"xa--a\nbb", 1, 1000))
        };
        let found = Ok(Some((1, 8)));
        assert_eq!(searched(CompileMode::SearchFew), (false, found));
        assert_eq!(searched(CompileMode::Search).1, found);
    }

    #[test]
    fn groups_that_took_no_part_are_none() {
        let code =
            PcreCode::compile("(?<first>a)?(b)(?:(c)|(?<last>d))", CompileMode::AsWritten).unwrap();
        let found = |text: &[u8]| code.search_groups::<6>(text, 0, 1000).unwrap();
        assert_eq!(
            found(b"xbd"),
            [Some((1, 3)), None, Some((1, 2)), None, Some((2, 3)), None]
        );
        assert_eq!(
            found(b"abc"),
            [
                Some((0, 3)),
                Some((0, 1)),
                Some((1, 2)),
                Some((2, 3)),
                None,
                None
            ]
        );
        assert_eq!(found(b"ab"), [None; 6]);
        assert_eq!(code.search(b"xbd", 0, 1000), Ok(Some((1, 3))));
        assert_eq!(code.group_number(c"last"), Some(4));
        assert_eq!(code.group_number(c"other"), None);
    }

    #[test]
    fn steps_have_a_limit() {
        let code = PcreCode::compile("(?:a|aa)+$", CompileMode::Search).unwrap();
        let text = [&[b'a'; 25][..], b"!"].concat();
        assert_eq!(code.search(&text, 0, 1000), Err(PcreError::STEPS));
        assert_eq!(code.search(&text, 0, 10_000_000), Ok(None));
    }

    #[test]
    fn errors_have_words() {
        let error = PcreCode::compile("(", CompileMode::Search).unwrap_err();
        assert!(error.to_string().contains("parenthesis"), "{error}");
    }
}
