//! The problems of a file, shown as a good compiler shows them: rule, place, source line with a caret, object and
//! field, and what to write instead.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Element, Level, Origin, Renderer, Snippet};

use crate::problem::{Problem, Severity};
use crate::tree::Span;

/// All problems of one file in the order of their places, one paragraph each.
#[must_use]
pub fn render(path: &str, source: &str, problems: &[Problem], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut sorted: Vec<&Problem> = problems.iter().collect();
    sorted.sort_by_key(|problem| problem.span.start);
    sorted.iter().map(|problem| render_one(path, source, problem, &renderer) + "\n\n").collect()
}

/// Line and column of a place in a source, both counted from 1, for messages of one line.
#[must_use]
pub fn position(source: &str, span: Span) -> (usize, usize) {
    let line = Line::at(source, span.start);
    (line.number, line.text[..line.clip(span).start].chars().count() + 1)
}

fn render_one(path: &str, source: &str, problem: &Problem, renderer: &Renderer) -> String {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let object = [problem.object.as_str(), problem.field.as_str()];
    let object: Vec<&str> = object.into_iter().filter(|part| !part.is_empty()).collect();
    let mut group =
        level.primary_title(&problem.message).id(problem.rule).element(place(path, source, problem));
    if !object.is_empty() {
        group = group.element(Level::NOTE.message(object.join(", ")));
    }
    if !problem.help.is_empty() {
        group = group.element(Level::HELP.message(&problem.help));
    }
    renderer.render(&[group])
}

/// The line with its caret; for what must not be shown, and for objects without a source, only where it is.
fn place<'a>(path: &'a str, source: &'a str, problem: &Problem) -> Element<'a> {
    if source.is_empty() {
        return Origin::path(path).into();
    }
    let line = Line::at(source, problem.span.start);
    if is_confidential(problem) {
        let (line, column) = position(source, problem.span);
        return Origin::path(path).line(line).char_column(column).into();
    }
    let marked = line.clip(problem.span);
    let snippet = Snippet::source(line.text).path(path).line_start(line.number);
    snippet.annotation(AnnotationKind::Primary.span(marked.start..marked.end)).into()
}

/// Messages go into logs, and the data of Secrets does not.
fn is_confidential(problem: &Problem) -> bool {
    problem.object.starts_with("Secret ")
        && (problem.field.starts_with("data") || problem.field.starts_with("stringData"))
}

/// One line of a source.
struct Line<'a> {
    number: usize,
    start: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn at(source: &'a str, offset: usize) -> Self {
        let mut offset = source.floor_char_boundary(offset);
        // At the end of the file the last line that has something is the one to look at.
        if offset == source.len() {
            offset = source.trim_end().len();
        }
        let start = source[..offset].rfind('\n').map_or(0, |newline| newline + 1);
        let end = source[offset..].find('\n').map_or(source.len(), |length| offset + length);
        let number = source[..start].matches('\n').count() + 1;
        Self { number, start, text: source[start..end].trim_end_matches('\r') }
    }

    /// The part of the span on this line. A map or list goes on over many lines: its first key stands for it.
    fn clip(&self, span: Span) -> Span {
        let length = self.text.len();
        let start = self.text.floor_char_boundary(span.start.saturating_sub(self.start));
        let end = span.end.saturating_sub(self.start);
        let end = if end > length { start + first_key(&self.text[start..]) } else { end };
        // A caret needs something to stand under, at the end of the line the room behind it.
        let end = if start == length { length + 1 } else { self.text.ceil_char_boundary(end.max(start + 1)) };
        Span { start, end }
    }
}

fn first_key(text: &str) -> usize {
    let end = text.find(": ").or_else(|| text.strip_suffix(':').map(str::len));
    end.unwrap_or_else(|| text.trim_end().len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{objects, read_object, yaml};

    fn shown(source: &str) -> String {
        let (documents, mut problems) = yaml::documents(source);
        for document in documents {
            for node in objects(document).0 {
                problems.extend(read_object(&node).problems);
            }
        }
        render("web.yaml", source, &problems, false)
    }

    #[test]
    fn all_problems_of_a_file_with_line_caret_and_help() {
        let source = "\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: web
spec:
  gatewayClassName: tidegate
  listeners:
    - name: http
      port: 0
      protocol: HTTP
    - name: tls
      port: 443
      protocol: TLS
      hostnam: www.example.com
---
kind: [
";
        assert_eq!(
            shown(source),
            "\
error[range]: 0 is not between 1 and 65535
 --> web.yaml:9:13
  |
9 |       port: 0
  |             ^
  |
  = note: Gateway default/web, spec.listeners[0].port
  = help: write a number from 1 to 65535

error[tls_listener_says_tls]: a listener of protocol TLS has to say what it does with TLS
  --> web.yaml:11:7
   |
11 |     - name: tls
   |       ^^^^
   |
   = note: Gateway default/web, spec.listeners[1]
   = help: write `tls:` with `mode: Passthrough`, or with `mode: Terminate` and `certificateRefs`

warning[unknown-field]: unknown field `hostnam`, it has no effect
  --> web.yaml:14:7
   |
14 |       hostnam: www.example.com
   |       ^^^^^^^
   |
   = note: Gateway default/web, spec.listeners[1].hostnam
   = help: did you mean `hostname`?

error[yaml]: while parsing a node, did not find expected node content
  --> web.yaml:16:8
   |
16 | kind: [
   |        ^
   |
   = help: check the indentation, brackets and quotes here and in the line before

"
        );
    }

    #[test]
    fn carets_stand_under_wide_characters() {
        let source = "apiVersion: v1\nkind: Namespace\nmetadata: {labels: {ü: x}, name: \"日本\"}\r\n";
        assert_eq!(
            shown(source),
            "\
error[label_keys_are_qualified_names]: `ü` is not a key for a label
 --> web.yaml:3:21
  |
3 | metadata: {labels: {ü: x}, name: \"日本\"}
  |                     ^
  |
  = note: Namespace 日本, metadata.labels
  = help: write a name of at most 63 letters, digits, `-`, `_` and `.`, with a domain before it or not: example.com/name

error[name_has_the_form_of_its_kind]: `日本` is not a name for an object of this kind
 --> web.yaml:3:34
  |
3 | metadata: {labels: {ü: x}, name: \"日本\"}
  |                                  ^^^^^^
  |
  = note: Namespace 日本, metadata.name
  = help: write at most 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit

"
        );
    }

    #[test]
    fn secrets_are_not_shown() {
        let source = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\ndata:\n  tls.key: hunter2!\n";
        assert_eq!(
            shown(source),
            "\
error[base64]: this is not base64
--> web.yaml:6:12
 = note: Secret default/a, data[\"tls.key\"]
 = help: encode it with `base64 -w0`, or write the text itself below `stringData`, in a ConfigMap below `data`

"
        );
    }

    #[test]
    fn long_lines_are_cut() {
        let source = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {}\n", "a".repeat(4000));
        assert!(shown(&source).lines().all(|line| line.chars().count() < 200 || line.contains("note")));
    }

    #[test]
    fn colour_is_up_to_the_caller() {
        let (_, problems) = yaml::documents("a: [");
        assert!(render("a.yaml", "a: [", &problems, true).contains('\u{1b}'));
        assert!(!render("a.yaml", "a: [", &problems, false).contains('\u{1b}'));
    }

    #[test]
    fn positions_count_characters() {
        let at = |start| position("ä: 1\nü: é x\n", Span { start, end: start });
        assert_eq!((at(0), at(3), at(6), at(9), at(12)), ((1, 1), (1, 3), (2, 1), (2, 3), (2, 5)));
    }

    #[test]
    fn any_place_can_be_shown() {
        let source = "ü:\r\n\n  - é\n";
        for start in 0..source.len() + 3 {
            for end in start..source.len() + 3 {
                let problem = Problem {
                    severity: Severity::Error,
                    rule: "rule",
                    object: String::new(),
                    field: String::new(),
                    span: Span { start, end },
                    message: "m".to_owned(),
                    help: String::new(),
                };
                assert!(render("a.yaml", source, std::slice::from_ref(&problem), false).contains("a.yaml:"));
                assert!(render("a.yaml", "", &[problem], false).contains("a.yaml"));
            }
        }
    }
}
