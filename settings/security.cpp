#include "settings/security.h"

#include <fmt/core.h>

#include "base/check.h"

namespace braid::settings {
namespace {

constexpr std::string_view kModeHelp =
    "which links carry encrypted and authenticated packets: those of wires that can leave the host, that is all but shm "
    "(auto), also those of shared memory (required), or none (off)";
constexpr std::string_view kModeReason = "a network may have others on it; shared memory has not";

using R = RunSecurityConfig;
constexpr Setting kRun[] = {
    declare<&R::mode>({.name = "mode",
                       .option = "--security",
                       .help = kModeHelp,
                       .reason = kModeReason,
                       .scope = Scope::kLive}),
    declare<&R::keylog>(
        {.name = "keylog",
         .option = "--keylog",
         .help = "add the keys of sealed packets to FILE, with which 'braid decrypt' opens captures; "
                 "who has it reads the run. With --hosts, each node writes FILE.cluster<k> on its host",
         .allowed = "a file",
         .scope = Scope::kLive})};

using S = SecurityConfig;
constexpr Setting kNode[] = {
    declare<&S::mode>({.name = "mode", .help = kModeHelp, .reason = kModeReason}),
    declare<&S::secret_file>(
        {.name = "secret_file",
         .help =
             "file with the secret that all nodes of the machine have, as 'braid secret FILE' makes it; only "
             "its owner may be able to read it"}),
    declare<&S::secret_fd>({.name = "secret_fd",
                            .help =
                                "the secret's 32 bytes in an inherited descriptor, which is closed when they "
                                "are read; -1: none",
                            .least = -1}),
    declare<&S::keylog>(
        {.name = "keylog",
         .help = "file to which the keys of sealed packets are added, with which 'braid decrypt' opens "
                 "captures; who has it reads them; empty: none"})};

std::optional<Conflict> secret_is_one(const S& s) {
  if (s.secret_file.empty() || s.secret_fd < 0) return std::nullopt;
  return Conflict{
      {"secret_file", "secret_fd"},
      fmt::format("is '{}' and secret_fd is {}; give only one of them", s.secret_file, s.secret_fd)};
}
constexpr Relation kNodeRelations[] = {
    relation<S, secret_is_one>("at most one of secret_file and secret_fd is given")};

}  // namespace

bool is_sealed(SecurityMode mode, bool is_shared_memory) {
  switch (mode) {
    case SecurityMode::kAuto:
      return !is_shared_memory;
    case SecurityMode::kRequired:
      return true;
    case SecurityMode::kOff:
      return false;
  }
  CHECK(false);
}

constinit const Schema kRunSecuritySchema = {.settings = kRun};
constinit const Schema kSecuritySchema = {.settings = kNode, .relations = kNodeRelations};

}  // namespace braid::settings
