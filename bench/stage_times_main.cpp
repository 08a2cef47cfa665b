// The program that `braid calibrate` runs to time the stages. It is separate, so that the command has no daemon, no
// DPDK and no shared heap in it. Writes one JSON object: {"key": {"ns": 12.5, "how": "..."}, ...}.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "base/json.h"
#include "bench/stage_times.h"

int main(int argc, char** argv) {
  unsigned samples = 100;
  CLI::App app("Times the stages of a message's way on this machine, for 'braid calibrate'");
  app.add_option("--samples", samples, "of each thing")->check(CLI::Range(10, 100000))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const braid::Result<braid::bench::StageTimes> times = braid::bench::time_stages(samples);
  if (!times) {
    fmt::print(stderr, "{}\n", times.error().text);
    return 1;
  }
  nlohmann::ordered_json json;
  for (const auto& [key, time] : *times) json[key] = {{"ns", time.ns}, {"how", time.how}};
  fmt::print("{}\n", json.dump(2));
  return 0;
}
