// Files that a command writes at its end, opened at its beginning: an hour's work is not lost to a misspelt
// folder. What cannot be written ends the command (refuse()).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/braid/process/descriptor.h"

namespace braid::cli {

class OutputFile {
 public:
  // `option` is named in errors: "--report". An empty path: nothing is written.
  OutputFile(std::string option, std::string path);

  // In place of what is in the file.
  void write(const std::string& text) const;
  void write(const nlohmann::ordered_json& json) const;

 private:
  const std::string option_;
  const std::string path_;
  const Descriptor file_;
};

}  // namespace braid::cli
