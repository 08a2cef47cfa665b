#include "tools/braid/command_line/output_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {
namespace {

bool write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

OutputFile::OutputFile(std::string option, std::string path)
    : option_(std::move(option)),
      path_(std::move(path)),
      file_(path_.empty() ? -1 : ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) {
  if (!path_.empty() && !file_)
    refuse(kCannotCreateStatus,
           fmt::format("{}: {} cannot be written: {}", option_, path_, std::strerror(errno)));
}

void OutputFile::write(const std::string& text) const {
  if (!file_) return;
  (void)::lseek(file_.get(), 0, SEEK_SET);
  if (::ftruncate(file_.get(), 0) != 0 && errno != EINVAL) errno = 0;  // a pipe has no length to cut
  if (!write_all(file_.get(), text))
    refuse(kCannotCreateStatus, fmt::format("{}: {}: {}", option_, path_, std::strerror(errno)));
}

void OutputFile::write(const nlohmann::ordered_json& json) const {
  write(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace braid::cli
