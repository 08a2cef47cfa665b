// A file with this text; an error names the file, the cause and the cure.
#pragma once

#include <string>

#include "base/output_file.h"

namespace braid::bench {

inline Result<void> write_text(const std::string& path, const std::string& text) {
  Result<OutputFile> file = OutputFile::create(path, 0644);
  if (!file) return file.error();
  if (const Result<void> done = file->append(text); !done) return done;
  return file->close();
}

}  // namespace braid::bench
