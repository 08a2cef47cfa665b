// Files that a command writes, opened at its beginning: an hour's work is not lost to a misspelt folder. What cannot
// be written ends the command (refuse()).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/output_file.h"

namespace braid::cli {

class OutputFileOption {
 public:
  // `option` is named in errors: "--report". An empty path: nothing is written. "-": standard output.
  // `permissions` are those of a new file.
  OutputFileOption(std::string option, const std::string& path,
                   OutputFile::Existing existing = OutputFile::Existing::kKept, mode_t permissions = 0644);

  // In place of what is in the file.
  void write(const std::string& text);
  void write(const nlohmann::ordered_json& json);
  // To append to, for those who report failures themselves; null: there is no file.
  OutputFile* file() { return file_ ? &*file_ : nullptr; }
  // Everything has arrived.
  void close();

 private:
  void expect(const Result<void>& written) const;

  const std::string option_;
  std::optional<OutputFile> file_;
};

// Writes to standard output, all of it.
void print(const std::string& text);

}  // namespace braid::cli
