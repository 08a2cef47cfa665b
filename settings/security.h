// Which links carry sealed packets: encrypted and authenticated with keys that only nodes with the same secret have
// (docs/SECURITY.md).
#pragma once

#include <cstdint>
#include <string>

#include "settings/setting.h"

namespace braid::settings {

enum class SecurityMode : std::uint8_t {
  kAuto,      // where frames can leave the host
  kRequired,  // on every link
  kOff,       // nowhere
};
template <>
struct Words<SecurityMode> {
  using E = SecurityMode;
  static constexpr Word<E> kAll[] = {{"auto", E::kAuto}, {"required", E::kRequired}, {"off", E::kOff}};
};

// Whether links of this kind carry sealed packets.
bool is_sealed(SecurityMode mode, bool is_shared_memory);

// Of a run; its launcher makes the secret.
struct RunSecurityConfig {
  SecurityMode mode = SecurityMode::kAuto;
  std::string keylog;  // empty: keys are not written
};
extern const Schema kRunSecuritySchema;

// Of a node. The secret itself is no setting: what is set is printed.
struct SecurityConfig {
  SecurityMode mode = SecurityMode::kAuto;
  std::string secret_file;
  int secret_fd = -1;
  std::string keylog;  // empty: keys are not written

  bool has_secret() const { return !secret_file.empty() || secret_fd >= 0; }
};
extern const Schema kSecuritySchema;

}  // namespace braid::settings
