//! The normal form of a path: one for the paths of requests and for those that routes are written with, so that
//! what is matched is what is forwarded, and two spellings of one path are never two paths.

use std::borrow::Cow;

/// Why a path has no normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path does not begin with a slash")]
    NotAbsolute,
    #[error("the path has a % that two hexadecimal digits do not follow")]
    BadEscape,
    #[error("the path has a control character, a space or a backslash")]
    BadByte,
    #[error("the path hides a dot segment behind an encoded slash")]
    HiddenDots,
}

/// The path as it is matched and forwarded.
///
/// - Escapes of characters that need none (letters, digits, `-._~`) are undone, all others are in capitals, and
///   characters that may not stand in a path are escaped.
/// - Dot segments are followed, never above the root; several slashes in a row are one.
/// - `%2F` and `%5C` stay as they are and separate nothing: names with a slash inside are common. Backends that undo
///   them must not be led out of the path that was matched, so one beside a dot segment has no normal form.
/// - Control characters, encoded or not, and backslashes have none either.
pub fn normal_path(path: &str) -> Result<Cow<'_, str>, PathError> {
    if !path.starts_with('/') {
        return Err(PathError::NotAbsolute);
    }
    if is_normal(path.as_bytes()) {
        return Ok(Cow::Borrowed(path));
    }
    let spelled = respelled(path)?;
    let resolved = resolved(&spelled);
    match resolved.split('/').any(hides_dots) {
        true => Err(PathError::HiddenDots),
        false => Ok(Cow::Owned(resolved)),
    }
}

/// Whether nothing can be wrong with the path: a look at each byte, for what most paths are.
fn is_normal(path: &[u8]) -> bool {
    static PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            plain[byte] = is_path_byte(byte as u8);
            byte += 1;
        }
        plain
    };
    let mut after_slash = false;
    for &byte in path {
        // A segment that begins with a dot may be a dot segment, an empty one may be one slash too many.
        if !PLAIN[usize::from(byte)] || after_slash && matches!(byte, b'.' | b'/') {
            return false;
        }
        after_slash = byte == b'/';
    }
    true
}

/// What may stand in a path as it is; `%` is not among them.
const fn is_path_byte(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(
            byte,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@' | b'/'
        )
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Every character in its one spelling.
fn respelled(path: &str) -> Result<String, PathError> {
    let mut spelled = String::with_capacity(path.len() + 8);
    let mut rest = path.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'%' => {
                let [high, low, after @ ..] = after else { return Err(PathError::BadEscape) };
                let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                    return Err(PathError::BadEscape);
                };
                rest = after;
                match high << 4 | low {
                    byte if is_unreserved(byte) => spelled.push(char::from(byte)),
                    byte if byte.is_ascii_control() => return Err(PathError::BadByte),
                    byte => escape(byte, &mut spelled),
                }
            }
            0..=b' ' | 0x7f | b'\\' => return Err(PathError::BadByte),
            &byte if is_path_byte(byte) => spelled.push(char::from(byte)),
            &byte => escape(byte, &mut spelled),
        }
    }
    Ok(spelled)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn escape(byte: u8, spelled: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    spelled.push('%');
    spelled.push(char::from(DIGITS[usize::from(byte >> 4)]));
    spelled.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// Without dot segments and empty ones. A path that ended in one ends in a slash.
fn resolved(path: &str) -> String {
    let mut resolved = String::with_capacity(path.len());
    let mut open = false;
    for segment in path.split('/').skip(1) {
        open = matches!(segment, "" | "." | "..");
        match segment {
            "" | "." => {}
            ".." => resolved.truncate(resolved.rfind('/').unwrap_or(0)),
            name => {
                resolved.push('/');
                resolved.push_str(name);
            }
        }
    }
    if open || resolved.is_empty() {
        resolved.push('/');
    }
    resolved
}

/// Whether a segment has a dot segment in it for those who take an encoded slash for a slash.
fn hides_dots(segment: &str) -> bool {
    let hidden = |piece: &str| piece.split("%5C").any(|piece| matches!(piece, "." | ".."));
    segment.contains('%') && segment.split("%2F").any(hidden)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_spelling_for_each_path() {
        for (path, expected) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/", "/a/"),
            ("//a///b//", "/a/b/"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/b/..", "/a/"),
            ("/a/b/.", "/a/b/"),
            ("/..", "/"),
            ("/../../a", "/a"),
            ("/a/...", "/a/..."),
            ("/.well-known/x", "/.well-known/x"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/.%2e/b", "/b"),
            ("/%41%7e%2d", "/A~-"),
            ("/a%2fb", "/a%2Fb"),
            ("/group%2Fproject/x", "/group%2Fproject/x"),
            ("/a%5cb", "/a%5Cb"),
            ("/a%20b", "/a%20b"),
            ("/{id}", "/%7Bid%7D"),
            ("/ä", "/%C3%A4"),
            ("/%c3%a4", "/%C3%A4"),
            ("/a;v=1/b@c:d", "/a;v=1/b@c:d"),
            ("/%25", "/%25"),
            ("/%252e%252e/", "/%252e%252e/"),
        ] {
            assert_eq!(normal_path(path).as_deref(), Ok(expected), "{path}");
        }
    }

    #[test]
    fn what_has_no_normal_form() {
        for (path, error) in [
            ("", PathError::NotAbsolute),
            ("a", PathError::NotAbsolute),
            ("*", PathError::NotAbsolute),
            ("/%", PathError::BadEscape),
            ("/%4", PathError::BadEscape),
            ("/%zz", PathError::BadEscape),
            ("/%+1", PathError::BadEscape),
            ("/a%00", PathError::BadByte),
            ("/a%0d%0ab", PathError::BadByte),
            ("/a b", PathError::BadByte),
            ("/a\tb", PathError::BadByte),
            ("/a\\..\\b", PathError::BadByte),
            ("/a/..%2fb", PathError::HiddenDots),
            ("/a/%2e%2e%2Fb", PathError::HiddenDots),
            ("/a%2f..", PathError::HiddenDots),
            ("/a%5c..%5Cb", PathError::HiddenDots),
            ("/a%2F.%5cb", PathError::HiddenDots),
        ] {
            assert_eq!(normal_path(path), Err(error), "{path}");
        }
    }

    /// The algorithm of RFC 3986, 5.2.4, word for word.
    fn without_dots(path: &str) -> String {
        let (mut input, mut output) = (path.to_owned(), String::new());
        while !input.is_empty() {
            if input.starts_with("/./") || input == "/." {
                input = format!("/{}", input.get(3..).unwrap_or_default());
            } else if input.starts_with("/../") || input == "/.." {
                input = format!("/{}", input.get(4..).unwrap_or_default());
                output.truncate(output.rfind('/').unwrap_or(0));
            } else {
                let end = input[1..].find('/').map_or(input.len(), |at| at + 1);
                output.push_str(&input[..end]);
                input.drain(..end);
            }
        }
        output
    }

    proptest! {
        #[test]
        fn dot_segments_are_removed_as_the_rfc_says(path in "(/(\\.|\\.\\.|[ab]|\\.a|\\.\\.\\.)){1,8}/?") {
            let path = path.as_str();
            prop_assert_eq!(normal_path(path).unwrap(), without_dots(path));
        }

        #[test]
        fn a_normal_path_stays_as_it_is(path in "/([ab./%\\\\{ä]|%[0-7][0-9a-fA-F]|%2[ef]|\\.\\.){0,16}") {
            if let Ok(normal) = normal_path(&path) {
                let again = normal_path(&normal);
                prop_assert_eq!(again.as_deref(), Ok(&*normal));
                prop_assert!(normal.is_ascii() && !normal.contains("//"));
                prop_assert!(!normal.split('/').any(|segment| matches!(segment, "." | "..")));
            }
        }

        #[test]
        fn the_quick_look_agrees_with_the_long_one(path in "/[ab./:~]{0,12}") {
            if is_normal(path.as_bytes()) {
                prop_assert_eq!(resolved(&respelled(&path).unwrap()), path);
            }
        }
    }
}
