#include "tools/braid/secret/secret_command.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <span>
#include <string>

#include "base/hex.h"
#include "base/output_file.h"
#include "base/system_error.h"
#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/secret/make_secret.h"

namespace braid::cli {
namespace {

constexpr const char* kFooter =
    "The file holds 64 hexadecimal digits, and only this user may read it. Copy it to every node over a way that nobody else can\n"
    "read (scp -p), and name it in each braidd's configuration: security: {secret_file: FILE}. 'braid run' needs none: it makes a\n"
    "secret for each run. A file that exists is not replaced.\n"
    "\n"
    "Example:\n"
    "  braid secret /etc/braid/secret\n";

struct Arguments {
  std::string path;
};

// As a line of hexadecimal digits.
std::string text_of(const stack::Secret& secret) {
  std::string text(2 * stack::Secret::kBytes + 1, '\n');
  write_hex(secret.bytes(), text.data());
  return text;
}

int write_secret(const Arguments& arguments) {
  const std::string& path = arguments.path;
  const auto secret = make_secret();
  if (!secret) refuse(kLostDaemonStatus, secret.error().text);
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file)
    refuse(
        kCannotCreateStatus,
        errno == EEXIST
            ? fmt::format(
                  "{}: it exists, and nodes may use the secret in it; name another file, or remove it", path)
            : fmt::format("{}: {}", path, cause_and_cure(errno)));
  std::string text = text_of(**secret);
  int problem = write_all(file.get(), text);
  stack::wipe(std::as_writable_bytes(std::span(text)));
  if (problem == 0 && ::fsync(file.get()) != 0 && errno != EINVAL) problem = errno;
  if (problem != 0) {
    ::unlink(path.c_str());
    refuse(kCannotCreateStatus, fmt::format("{}: {}", path, cause_and_cure(problem)));
  }
  print(fmt::format("{} holds a new secret, which only this user may read\n", path));
  return 0;
}

}  // namespace

Subcommand secret_command() {
  const auto arguments = std::make_shared<Arguments>();
  return {.name = "secret",
          .about = "Make the secret of nodes that are started by hand",
          .usage = "braid secret FILE",
          .footer = kFooter,
          .options = {{.names = "file",
                       .value_text = "FILE",
                       .help = "the file to make",
                       .target = &arguments->path}},
          .run = [arguments](const Given&) { return write_secret(*arguments); }};
}

}  // namespace braid::cli
