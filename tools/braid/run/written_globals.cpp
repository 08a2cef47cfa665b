#include "tools/braid/run/written_globals.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "tools/braid/run/costs.h"

namespace braid::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNamed = 8;

// "0, 1, 2 and 7"
std::string list_of(const std::vector<std::uint32_t>& clusters) {
  std::string text;
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    const char* const before = i == 0 ? "" : i + 1 == clusters.size() ? " and " : ", ";
    text += fmt::format("{}{}", before, clusters[i]);
  }
  return text;
}

}  // namespace

GlobalsOfClusters globals_of(std::span<const Json> clusters) {
  GlobalsOfClusters all;
  std::map<std::string, std::size_t> places;
  std::vector<WrittenGlobal> written;
  for (std::uint32_t k = 0; k < clusters.size(); ++k) {
    if (!clusters[k].is_object()) continue;
    const auto given = clusters[k].find("globals");
    if (given == clusters[k].end() || !given->is_object()) continue;
    if (const auto names = given->find("have_names"); names != given->end() && *names == false)
      all.have_names = false;
    all.not_told += count_in(*given, "more");
    all.unwatched_bytes = std::max(all.unwatched_bytes, count_in(*given, "unwatched_bytes"));
    const auto list = given->find("written");
    if (list == given->end() || !list->is_array()) continue;
    for (const Json& name : *list) {
      if (!name.is_string()) continue;
      const auto [place, is_new] = places.try_emplace(name.get<std::string>(), written.size());
      if (is_new) written.push_back({.name = place->first, .clusters = {}});
      // Static variables of several files may have one name.
      std::vector<std::uint32_t>& writers = written[place->second].clusters;
      if (writers.empty() || writers.back() != k) writers.push_back(k);
    }
  }
  std::erase_if(written, [](const WrittenGlobal& global) { return global.clusters.size() < 2; });
  all.written = std::move(written);
  return all;
}

std::string warning(const GlobalsOfClusters& globals) {
  if (!globals.have_names)
    return "which globals several clusters have written is not known, for the program is stripped";
  if (globals.written.empty()) return {};
  std::string names;
  for (std::size_t i = 0; i < std::min(kNamed, globals.written.size()); ++i) {
    const WrittenGlobal& global = globals.written[i];
    names += fmt::format("{}{} (clusters {})", i == 0 ? "" : ", ", global.name, list_of(global.clusters));
  }
  if (globals.written.size() > kNamed) names += fmt::format(" and {} more", globals.written.size() - kNamed);
  return fmt::format(
      "several clusters have written a global since the start, each its own copy: {}; if they mean one, link with "
      "--shared-globals",
      names);
}

Json json_of(const GlobalsOfClusters& globals) {
  Json written = Json::array();
  for (const WrittenGlobal& global : globals.written)
    written.push_back({{"name", global.name}, {"clusters", global.clusters}});
  return {{"written_by_several", written},
          {"have_names", globals.have_names},
          {"not_told", globals.not_told},
          {"unwatched_bytes", globals.unwatched_bytes}};
}

}  // namespace braid::cli
