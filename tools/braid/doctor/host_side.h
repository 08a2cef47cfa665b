// What `braid-node --doctor` does on its host, for `braid doctor` on another one. Both talk in lines of JSON (RFC 8259):
//
//   doctor                                          host
//   {threads, cores, is_sealed, addresses}   -->
//                                            <--    {version, findings, ports: {address: port}, refused: {address: why}}
//   {probes: [{from, to, port, bytes: []}]}  -->
//                                            <--    {sent: [[bytes], ...], refused: [why, ...], clock}
//   (closes its side)                        -->
//                                            <--    {heard: [{to, from, bytes}]}
//
// Lines of the host begin with kDoctorMark; a login shell may write others before.
#pragma once

#include <string_view>

namespace braid::cli {

inline constexpr std::string_view kDoctorMark = "braid-doctor ";

// Serves on standard input and output, until the input ends or for a minute. Returns the command's status.
int serve_doctor();

}  // namespace braid::cli
