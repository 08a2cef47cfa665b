// Output arrives in arbitrary pieces, and leaves as whole lines with a prefix.
#include "tools/braid/process/line_prefixer.h"

#include <gtest/gtest.h>

namespace braid::cli {
namespace {

TEST(LinePrefixer, PutsThePrefixBeforeEveryLine) {
  LinePrefixer lines("[c0] ");
  std::string out;
  lines.feed("one\ntwo\n\nthree\n", out);
  EXPECT_EQ(out, "[c0] one\n[c0] two\n[c0] \n[c0] three\n");
}

TEST(LinePrefixer, KeepsALineUntilItIsComplete) {
  LinePrefixer lines("[c0] ");
  std::string out;
  lines.feed("half", out);
  EXPECT_EQ(out, "");
  lines.feed(" and half\nrest", out);
  EXPECT_EQ(out, "[c0] half and half\n");
  lines.finish(out);
  EXPECT_EQ(out, "[c0] half and half\n[c0] rest\n");
  lines.finish(out);
  EXPECT_EQ(out, "[c0] half and half\n[c0] rest\n") << "nothing is said twice";
}

TEST(LinePrefixer, ResultDoesNotDependOnThePiecesOfInput) {
  const std::string text = "a\nbb\n\nccc\ndddd";
  LinePrefixer whole("> ");
  std::string expected;
  whole.feed(text, expected);
  whole.finish(expected);
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    LinePrefixer lines("> ");
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += piece)
      lines.feed(std::string_view(text).substr(at, piece), out);
    lines.finish(out);
    EXPECT_EQ(out, expected) << "pieces of " << piece;
  }
}

TEST(LinePrefixer, DividesALineThatIsTooLong) {
  LinePrefixer lines("[c0] ");
  const std::string full(LinePrefixer::kMaxLineBytes, 'x');
  std::string out;
  lines.feed(full + "yy\nnext\n", out);
  EXPECT_EQ(out, "[c0] " + full + "\n[c0] ... yy\n[c0] next\n");
}

TEST(LinePrefixer, DoesNotDivideALineOfTheLongestLength) {
  LinePrefixer lines("[c0] ");
  const std::string full(LinePrefixer::kMaxLineBytes, 'x');
  std::string out;
  lines.feed(full, out);
  lines.feed("\n", out);
  EXPECT_EQ(out, "[c0] " + full + "\n");
}

TEST(LinePrefixer, PassesAnyBytes) {
  LinePrefixer lines("");
  std::string out;
  const std::string bytes("\0\xff\r\x1b[m\n", 7);
  lines.feed(bytes, out);
  EXPECT_EQ(out, bytes);
}

}  // namespace
}  // namespace braid::cli
