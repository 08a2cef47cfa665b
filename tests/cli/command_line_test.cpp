// The command line: users can give exactly the declared options, and the application's arguments are not parsed.
#include "tools/braid/command_line/command_line.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tools/braid/command_line/output_file_option.h"

namespace braid::cli {
namespace {

// Two commands: `go`, which takes an application, and `look`, which does not.
struct Fixture {
  unsigned count = 1;
  double seconds = 0;
  std::string name;
  bool loud = false;
  bool ran = false;
  bool given_name = false;
  std::vector<std::string> application;
  std::string where;

  CommandLine line() {
    Subcommand go{.name = "go",
                  .about = "Goes",
                  .usage = "braid go [options] application",
                  .footer = "How to go.\n",
                  .options = {{.names = "--name", .value_text = "NAME", .help = "whose", .target = &name},
                              {.names = "--count",
                               .value_text = "N",
                               .help = "so many",
                               .target = NumberTarget<unsigned>{&count, 1, 64},
                               .group = "Numbers"},
                              {.names = "--seconds",
                               .value_text = "S",
                               .help = "so long",
                               .target = NumberTarget<double>{&seconds, 0, 10}},
                              {.names = "--loud", .help = "print more", .target = &loud}},
                  .takes_application = true,
                  .run = [this](const Given& given) {
                    ran = true;
                    given_name = given.has("--name");
                    application = given.application();
                    return 7;
                  }};
    Subcommand look{.name = "look",
                    .about = "Looks",
                    .usage = "braid look place",
                    .footer = "",
                    .options = {{.names = "place", .value_text = "PLACE", .help = "where", .target = &where},
                                {.names = "--loud", .help = "noise", .target = &loud},
                                {.names = "--name",
                                 .value_text = "NAME",
                                 .help = "whose",
                                 .target = &name,
                                 .excludes = {"--loud"}}},
                    .run = [](const Given&) { return 0; }};
    return {.about = "For tests", .footer = "The end.\n", .version = "1.2", .commands = {go, look}};
  }

  int run(std::vector<std::string> words) {
    words.insert(words.begin(), "braid");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    return run_command_line(line(), static_cast<int>(words.size()), argv.data());
  }

  std::string output_of(std::vector<std::string> words, int status) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run(std::move(words)), status);
    return testing::internal::GetCapturedStdout();
  }
};

TEST(CommandLine, RunsTheCommandThatIsNamedAndReturnsItsStatus) {
  Fixture f;
  EXPECT_EQ(f.run({"go", "--count", "3", "--seconds=2.5", "--name", "x", "--loud", "app"}), 7);
  EXPECT_TRUE(f.ran);
  EXPECT_EQ(f.count, 3u);
  EXPECT_EQ(f.seconds, 2.5);
  EXPECT_EQ(f.name, "x");
  EXPECT_TRUE(f.loud);
  EXPECT_TRUE(f.given_name);
}

TEST(CommandLine, OptionsThatAreNotGivenKeepTheirDefaults) {
  Fixture f;
  EXPECT_EQ(f.run({"go", "app"}), 7);
  EXPECT_EQ(f.count, 1u);
  EXPECT_FALSE(f.loud);
  EXPECT_FALSE(f.given_name);
}

TEST(CommandLine, WordsAfterTheApplicationArePassedOn) {
  Fixture f;
  f.run({"go", "--count", "2", "app", "--count", "9", "--help", "-x", "go"});
  EXPECT_EQ(f.application, (std::vector<std::string>{"app", "--count", "9", "--help", "-x", "go"}));
  EXPECT_EQ(f.count, 2u);
}

TEST(CommandLine, FlagCanBeSetToFalse) {
  Fixture f;
  f.loud = true;
  f.run({"go", "--loud=false", "app"});
  EXPECT_FALSE(f.loud);
}

TEST(CommandLine, PositionalArgumentIsStored) {
  Fixture f;
  EXPECT_EQ(f.run({"look", "here"}), 0);
  EXPECT_EQ(f.where, "here");
}

#define EXPECT_USAGE_ERROR(words, text) \
  EXPECT_EXIT((Fixture().run words), testing::ExitedWithCode(kUsageStatus), text)

TEST(CommandLineDeath, WrongUsageEndsWithItsStatusAndNamesTheCure) {
  EXPECT_USAGE_ERROR(({"gp"}), "there is no command 'gp'; did you mean 'go'\\?");
  EXPECT_USAGE_ERROR(({"jacobi"}), "there is no command 'jacobi'.*braid run jacobi");
  EXPECT_USAGE_ERROR(({"go"}), "go: which application\\? e.g. 'braid go jacobi'; see 'braid go --help'");
  EXPECT_USAGE_ERROR(({"go", "--coutn", "3"}), "go: --coutn is not an option \\(did you mean --count\\?\\)");
  EXPECT_USAGE_ERROR(({"go", "--coutn=3", "app"}), "--coutn is not an option");
  EXPECT_USAGE_ERROR(({"go", "--count", "65", "app"}), "--count.*65.*; see 'braid go --help'");
  EXPECT_USAGE_ERROR(({"go", "--count", "many", "app"}), "--count.*; see 'braid go --help'");
  EXPECT_USAGE_ERROR(({"go", "--count"}), "--count: 1 required N.* missing");
  EXPECT_USAGE_ERROR(({"look"}), "place is required; see 'braid look --help'");
  EXPECT_USAGE_ERROR(({"look", "here", "there"}), "look: 'there' is not expected; see 'braid look --help'");
  EXPECT_USAGE_ERROR(({"look", "here", "--loud", "--name", "x"}), "--loud excludes --name");
  EXPECT_USAGE_ERROR(({"help", "gp"}), "help: there is no command 'gp'");
  EXPECT_USAGE_ERROR(({"--nonsense"}), "there is no option '--nonsense'; .*see 'braid --help'");
  EXPECT_USAGE_ERROR(({"--verson"}), "there is no option '--verson'; did you mean '--version'\\?");
  EXPECT_USAGE_ERROR(({"--loud", "go", "app"}),
                     "there is no option '--loud'; options of a command come after");
}

TEST(CommandLineDeath, TheFirstMistakeInReadingOrderIsNamed) {
  EXPECT_USAGE_ERROR(({"go", "--seconds", "x", "--count", "y", "app"}),
                     "go: --seconds: 'x' is not a number from 0 to 10");
  EXPECT_USAGE_ERROR(({"go", "--count=y", "--seconds=x", "app"}),
                     "go: --count: 'y' is not a whole number from 1 to 64");
  EXPECT_USAGE_ERROR(({"go", "--bogus", "--count", "y", "app"}), "go: --bogus is not an option");
  EXPECT_USAGE_ERROR(({"go", "--count", "0", "--bogus", "app"}), "go: --count: '0' is not");
  EXPECT_USAGE_ERROR(({"look", "--bogus", "here"}),
                     "look: --bogus is not an option; see 'braid look --help'");
  EXPECT_USAGE_ERROR(({"look", "here", "there", "--bogus"}), "look: 'there' is not expected");
}

TEST(CommandLineDeath, AnOptionOfTheProgramBeforeItsNameIsExplained) {
  EXPECT_USAGE_ERROR(
      ({"go", "--size", "256", "app"}),
      "--size is not an option; see 'braid go --help'. An option of the program stands after its name: 'braid go "
      "PROGRAM --size");
  // "--name" is as far from "--size" as "--wire", and no help to who means the program's.
  EXPECT_USAGE_ERROR(({"go", "--nmae", "x", "app"}), "--nmae is not an option \\(did you mean --name\\?\\)");
}

TEST(CommandLineDeath, OptionWithoutAValueDoesNotTakeTheNextWord) {
  EXPECT_USAGE_ERROR(({"go", "--count=", "--loud", "app"}),
                     "go: --count= has no value; see 'braid go --help'");
  EXPECT_USAGE_ERROR(({"go", "--seconds", "2", "--name=", "app"}), "go: --name= has no value");
  EXPECT_USAGE_ERROR(({"look", "here", "--name="}), "look: --name= has no value");
}

TEST(CommandLine, EmptyValuesOfTheApplicationArePassedOn) {
  Fixture f;
  EXPECT_EQ(f.run({"go", "--name", "--count=", "app", "--count=", "x"}), 7);
  EXPECT_EQ(f.name, "--count=");
  EXPECT_EQ(f.application, (std::vector<std::string>{"app", "--count=", "x"}));
}

TEST(CommandLine, HelpHasEveryDeclaredOption) {
  Fixture f;
  const std::string text = f.output_of({"help", "go"}, 0);
  EXPECT_EQ(text, f.output_of({"go", "--help"}, 0));
  for (const char* const part : {"Usage: braid go [options] application", "--name NAME", "whose",
                                 "Numbers:", "--count N", "so many", "--loud", "-h,--help", "How to go."})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST(CommandLine, TheMainHelpListsTheCommands) {
  Fixture f;
  const std::string text = f.output_of({"--help"}, 0);
  EXPECT_EQ(text, f.output_of({"help"}, 0));
  EXPECT_EQ(text, f.output_of({}, kUsageStatus));
  for (const char* const part : {"For tests", "go ", "Goes", "look ", "Looks", "help ", "The end."})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_EQ(f.output_of({"--version"}, 0), "braid 1.2\n");
}

std::string text_in(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(OutputFileOption, ReplacesTheContentsOfTheFile) {
  const std::string path = testing::TempDir() + "braid-output-" + std::to_string(::getpid());
  std::ofstream(path) << "something longer than what comes";
  {
    OutputFileOption file("--report", path);
    EXPECT_EQ(text_in(path), "something longer than what comes");  // until there is something else
    file.write("first");
    file.write("2nd");
  }
  EXPECT_EQ(text_in(path), "2nd");
  ::unlink(path.c_str());
}

TEST(OutputFileOption, EmptyPathWritesNothing) {
  OutputFileOption("--report", "").write("text");
}

TEST(OutputFileDeath, UnwritableFileEndsTheCommand) {
  EXPECT_EXIT(OutputFileOption("--report", "/nonexistent/report"),
              testing::ExitedWithCode(kCannotCreateStatus),
              "--report: /nonexistent/report cannot be written: No such file or directory");
  EXPECT_EXIT(OutputFileOption("--report", "/dev/full").write("text"),
              testing::ExitedWithCode(kCannotCreateStatus),
              "--report: /dev/full cannot be written: No space left on device: make room");
}

}  // namespace
}  // namespace braid::cli
