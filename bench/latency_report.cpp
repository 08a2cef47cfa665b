#include "bench/latency_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "base/json.h"
#include "bench/write_text.h"

namespace braid::bench {
namespace {

std::string file_name(std::string operation) {
  for (char& c : operation)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '-';
  return operation;
}

Result<void> write_percentiles(const std::string& folder, const NamedOperations& operations) {
  for (const auto& [name, operation] : operations) {
    const std::string path = folder + "/" + file_name(name);
    if (const Result<void> done = operation->all.write(path + ".hgrm"); !done) return done;
    if (const Result<void> done = operation->corrected().write(path + ".corrected.hgrm"); !done) return done;
  }
  return {};
}

}  // namespace

void print_latencies(const std::string& what, const NamedOperations& operations) {
  std::size_t width = what.size();
  for (const auto& [name, operation] : operations) width = std::max(width, name.size());
  fmt::print("{:{}} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}   {}\n", what, width, "p50", "p99", "p99.9", "most",
             "p99 *", "p99.9 *", "* corrected for coordinated omission; other threads on this core");
  for (const auto& [name, operation] : operations) {
    const Latencies& all = operation->all;
    const Latencies corrected = operation->corrected();
    fmt::print("{:{}} {:9.3f} {:9.3f} {:9.3f} {:9.1f} {:9.3f} {:9.3f}   {} times, {:.2f} ms\n", name, width,
               all.percentile(0.5).us(), all.percentile(0.99).us(), all.percentile(0.999).us(),
               all.max().us(), corrected.percentile(0.99).us(), corrected.percentile(0.999).us(),
               operation->gaps.times, operation->gaps.waited.ms());
  }
}

nlohmann::json percentiles_json(const Operation& operation) {
  nlohmann::json json;
  for (const auto& [key, share] : {std::pair("p50", 0.5), std::pair("p99", 0.99), std::pair("p99.9", 0.999)})
    json[key] = operation.all.percentile(share).us();
  return json;
}

nlohmann::json percentiles_json(const NamedOperations& operations) {
  nlohmann::json json;
  for (const auto& [name, operation] : operations) json[name] = percentiles_json(*operation);
  return json;
}

bool write_output(const char* program, const OutputOptions& options, const nlohmann::json& figures,
                  const NamedOperations& operations) {
  Result<void> written;
  if (!options.percentiles.empty()) written = write_percentiles(options.percentiles, operations);
  if (!options.json.empty() && written) written = write_text(options.json, figures.dump(2) + "\n");
  if (!written) fmt::print(stderr, "{}: {}\n", program, written.error().text);
  return written.ok();
}

}  // namespace braid::bench
