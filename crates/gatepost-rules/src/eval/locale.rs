//! The character sets that are usual in mail of a language: `ok_locales`.

/// Languages and the character sets, other than the Latin ones, of their mail.
const CHARSETS: [(&str, &[&str]); 8] = [
    ("en", &[]),
    (
        "ja",
        &[
            "EUCJP",
            "JISX020119760",
            "JISX020819830",
            "JISX020819900",
            "JISX020819970",
            "JISX021219900",
            "JISX021320001",
            "JISX021320002",
            "SHIFTJIS",
            "ISO2022JP",
            "SJIS",
            "JIS7",
            "JISX0201",
            "JISX0208",
            "JISX0212",
        ],
    ),
    ("ko", &["EUCKR", "KSC56011987"]),
    (
        "ru",
        &[
            "KOI8R",
            "KOI8U",
            "KOI8T",
            "ISOIR111",
            "CP1251",
            "GEORGIANPS",
            "PT154",
        ],
    ),
    (
        "ka",
        &[
            "KOI8R",
            "KOI8U",
            "KOI8T",
            "ISOIR111",
            "CP1251",
            "GEORGIANPS",
            "PT154",
        ],
    ),
    (
        "tg",
        &[
            "KOI8R",
            "KOI8U",
            "KOI8T",
            "ISOIR111",
            "CP1251",
            "GEORGIANPS",
            "PT154",
        ],
    ),
    ("th", &["TIS620"]),
    (
        "zh",
        &[
            "GB1988",
            "GB2312",
            "GB231219800",
            "GB18030",
            "GBK",
            "BIG5HKSCS",
            "BIG5",
            "EUCTW",
            "ISO2022CN",
        ],
    ),
];

/// Whether any character set is permitted.
pub(super) fn is_any(locales: &[String]) -> bool {
    locales.iter().any(|locale| locale == "all")
}

/// Whether mail in one of these languages uses this character set.
pub(super) fn is_expected(charset: &str, locales: &[String]) -> bool {
    let first = charset
        .split(':')
        .next()
        .unwrap_or_default()
        .to_ascii_uppercase();
    let name: String = first.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = name.strip_prefix("3D").unwrap_or(&name);
    let roman = ["USASCII", "ASCII", "IBM852", "XUNKNOWN", "ISO"].contains(&name)
        || [
            "ISO8859",
            "ISO10646",
            "UTF",
            "UCS",
            "CP125",
            "WINDOWS",
            "UNICODE11UTF7",
            "UNICODE11UTF8",
        ]
        .iter()
        .any(|start| name.starts_with(start));
    roman
        || locales.iter().any(|locale| {
            let language = locale.get(..2).unwrap_or("en");
            CHARSETS
                .iter()
                .any(|(known, charsets)| *known == language && charsets.contains(&name))
        })
}
