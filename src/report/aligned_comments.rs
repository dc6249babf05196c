//! Aligns the trailing comments of study files that are written for people.

use super::wording::width;

/// Trailing comments start in this column, or after the longest line of their paragraph.
const COMMENTS: usize = 31;
/// Longer lines shift only their own comment.
const LONG: usize = 64;

/// Aligns the trailing comments of each paragraph; a comment begins with `\u{1}`.
pub fn aligned(text: &str) -> String {
    let paragraph = |paragraph: &str| {
        let lines: Vec<(&str, Option<&str>)> = paragraph
            .lines()
            .map(|line| {
                line.split_once('\u{1}')
                    .map_or((line, None), |(code, comment)| (code, Some(comment)))
            })
            .collect();
        let commented =
            lines.iter().filter(|(_, comment)| comment.is_some()).map(|(code, _)| width(code));
        let column = commented
            .filter(|width| *width < LONG)
            .map(|width| width + 1)
            .fold(COMMENTS, usize::max);
        let line = |(code, comment): &(&str, Option<&str>)| match comment {
            Some(comment) => format!(
                "{code}{}# {comment}\n",
                " ".repeat(column.saturating_sub(width(code)).max(1))
            ),
            None => format!("{code}\n"),
        };
        lines.iter().map(line).collect::<String>()
    };
    text.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stand_apart_from_long_lines_and_below_each_other() {
        let long = "lr = { float = [1.25e-5, 1.25e-1], log = true }";
        let endless = format!("kind = [{}]", "1, ".repeat(40));
        let text = aligned(&format!(
            "[space]\u{1}searched\n{long}\u{1}it was 0.1\n{endless}\u{1}it was \
             1\n\n[budget]\u{1}it ends\ntrials = 3\n"
        ));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], format!("{long} # it was 0.1"));
        assert_eq!(lines[0].find('#'), lines[1].find('#'));
        assert_eq!(lines[2], format!("{endless} # it was 1"));
        assert_eq!(lines[3..], ["", "[budget]                       # it ends", "trials = 3"]);
    }
}
