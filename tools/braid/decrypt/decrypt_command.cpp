#include "tools/braid/decrypt/decrypt_command.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/counted.h"
#include "tools/braid/decrypt/key_ring.h"
#include "tools/braid/decrypt/opened_capture.h"

namespace braid::cli {
namespace {

constexpr int kNothingOpenedStatus = 1;

constexpr const char* kFooter =
    "The capture is one that 'braid run --capture' wrote, or another pcapng file of Ethernet; the keys are what 'braid run --keylog'\n"
    "wrote, or a daemon's security.keylog. --keylog may be given several times. What cannot be opened is left as it is, and counted.\n"
    "tools/wireshark/braid.lua shows the result to Wireshark and tshark. Only its owner may read a new file.\n"
    "\n"
    "Status: 1: there are sealed packets, and none could be opened; 64: wrong usage; 73: the file cannot be written; 78: the capture or\n"
    "the file of keys is none, or the capture is damaged: then the file has what comes before the damage.\n"
    "\n"
    "Examples:\n"
    "  braid run --wire udp --capture /tmp/packets --keylog /tmp/keys jacobi --size 256\n"
    "  braid decrypt /tmp/packets/cluster0-proxy0.pcapng --keylog /tmp/keys -o /tmp/plain.pcapng\n"
    "  braid decrypt /tmp/packets/cluster0-proxy0.pcapng --keylog /tmp/keys -o - | tshark -X lua_script:tools/wireshark/braid.lua -r -\n";

struct Arguments {
  std::string capture;
  std::vector<std::string> keys;
  std::string plain;
};

// On standard error, for the file may go to standard output.
void say(const std::string& text) {
  fmt::print(stderr, "braid: {}\n", text);
}

KeyRing read_keys(const std::vector<std::string>& paths) {
  KeyRing ring;
  for (const std::string& path : paths) {
    const Result<KeyRing::Lines> lines = ring.add_file(path);
    if (!lines) refuse(kConfigStatus, fmt::format("--keylog: {}", lines.error().text));
    if (lines->others > 0)
      say(fmt::format("--keylog: {}: {} no key and left out, the first is line {}", path,
                      lines->others == 1 ? "1 line is" : fmt::format("{} lines are", lines->others),
                      lines->first_other));
  }
  return ring;
}

std::string summary(const OpenedPackets& packets) {
  const std::uint64_t sealed = packets.opened + packets.without_key + packets.not_opened;
  std::string text = fmt::format("opened {} of {}", packets.opened, counted(sealed, "sealed packet"));
  if (packets.without_key > 0) text += fmt::format("; {} without a key", packets.without_key);
  if (packets.not_opened > 0)
    text += fmt::format("; {} that their key does not open, forged or damaged", packets.not_opened);
  if (packets.fragments > 0)
    text += fmt::format("; {} of IP packets not looked into", counted(packets.fragments, "fragment"));
  return text;
}

int decrypt(const Arguments& arguments) {
  if (arguments.keys.empty())
    refuse(kUsageStatus, "decrypt: name the file of keys with --keylog; see 'braid decrypt --help'");
  if (arguments.plain.empty())
    refuse(kUsageStatus,
           "decrypt: name the file to write, e.g. '-o plain.pcapng'; see 'braid decrypt --help'");
  KeyRing keys = read_keys(arguments.keys);
  const std::string& path = arguments.capture;
  std::error_code problem;
  if (std::filesystem::is_directory(path, problem))
    refuse(kConfigStatus, fmt::format("{}: it is a folder; name one of the captures in it", path));
  std::ifstream capture(path, std::ios::binary);
  if (!capture) refuse(kConfigStatus, fmt::format("{}: cannot be read ({})", path, std::strerror(errno)));
  for (const std::string& input : arguments.keys)
    if (std::filesystem::equivalent(input, arguments.plain, problem))
      refuse(kUsageStatus, fmt::format("-o {}: it is the file of keys; name another", arguments.plain));
  if (std::filesystem::equivalent(path, arguments.plain, problem))
    refuse(kUsageStatus, fmt::format("-o {}: it is the capture itself; name another", arguments.plain));
  OutputFileOption plain("-o", arguments.plain, OutputFile::Existing::kEmptied, 0600);
  const Result<OpenedCapture> opened = open_capture(capture, path, keys, [&](ByteView block) {
    return plain.file()->append({reinterpret_cast<const char*>(block.data()), block.size()});
  });
  if (!opened) refuse(plain.file()->failed() ? kCannotCreateStatus : kConfigStatus, opened.error().text);
  plain.close();
  say(summary(opened->packets));
  if (!opened->problem.empty()) refuse(kConfigStatus, opened->problem);
  if (opened->packets.opened > 0 || opened->packets.without_key + opened->packets.not_opened == 0) return 0;
  say("none of these keys opens a packet: they are of another run; name the file that --keylog of the capture's run named");
  return kNothingOpenedStatus;
}

}  // namespace

Subcommand decrypt_command() {
  const auto arguments = std::make_shared<Arguments>();
  return {.name = "decrypt",
          .about = "Open the encrypted packets of a capture with the keys of its run",
          .usage = "braid decrypt CAPTURE --keylog FILE -o PLAIN",
          .footer = kFooter,
          .options = {{.names = "capture",
                       .value_text = "CAPTURE",
                       .help = "the pcapng file to read",
                       .target = &arguments->capture},
                      {.names = "--keylog",
                       .value_text = "FILE",
                       .help = "the keys; may be repeated",
                       .target = &arguments->keys},
                      {.names = "-o,--output",
                       .value_text = "PLAIN",
                       .help = "the pcapng file to write; -: standard output",
                       .target = &arguments->plain}},
          .run = [arguments](const Given&) { return decrypt(*arguments); }};
}

}  // namespace braid::cli
