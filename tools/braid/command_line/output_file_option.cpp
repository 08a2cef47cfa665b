#include "tools/braid/command_line/output_file_option.h"

#include <fmt/core.h>
#include <unistd.h>

#include "base/json.h"
#include "base/system_error.h"
#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

OutputFileOption::OutputFileOption(std::string option, const std::string& path, OutputFile::Existing existing,
                                   mode_t permissions)
    : option_(std::move(option)) {
  if (path.empty()) return;
  Result<OutputFile> made =
      path == "-" ? OutputFile::standard_output() : OutputFile::create(path, permissions, existing);
  if (!made) refuse(kCannotCreateStatus, fmt::format("{}: {}", option_, made.error().text));
  file_.emplace(std::move(*made));
}

void OutputFileOption::expect(const Result<void>& written) const {
  if (!written) refuse(kCannotCreateStatus, fmt::format("{}: {}", option_, written.error().text));
}

void OutputFileOption::write(const std::string& text) {
  if (file_) expect(file_->replace(text));
}

void OutputFileOption::write(const nlohmann::ordered_json& json) {
  write(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void OutputFileOption::close() {
  if (file_) expect(file_->close());
}

// A reader that ends early ends the command by SIGPIPE, as it does other commands.
void print(const std::string& text) {
  if (const int problem = write_all(STDOUT_FILENO, text, false); problem != 0)
    refuse(kCannotCreateStatus,
           fmt::format("standard output cannot be written: {}", cause_and_cure(problem)));
}

}  // namespace braid::cli
