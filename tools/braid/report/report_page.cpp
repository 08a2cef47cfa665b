#include "tools/braid/report/report_page.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tools/braid/version.h"

namespace braid::cli {
namespace {

using Json = nlohmann::ordered_json;

// In this order they are one script.
constexpr const char* kScripts[] = {"data.js", "charts.js", "timeline.js", "study.js",
                                    "live.js", "mva.js",    "run.js",      "main.js"};

class Parts {
 public:
  explicit Parts(std::string folder) : folder_(std::move(folder)) {}

  // Empty after a problem.
  std::string read(const std::string& name) {
    const std::string path = folder_ + "/" + name;
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    if (file && text << file.rdbuf()) return text.str();
    if (problem_.empty())
      problem_ = fmt::format("{}: cannot be read ({}); build braid again", path, std::strerror(errno));
    return "";
  }
  const std::string& problem() const { return problem_; }

 private:
  const std::string folder_;
  std::string problem_;
};

// Data that ends no element and begins no comment.
std::string data_element(const std::string& id, const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>\n", id, safe);
}

// The page's script reads a point only when it is shown.
std::string data_of(const std::vector<ReportSource>& sources) {
  Json overview;
  overview["braid"] = kVersion;
  overview["sources"] = Json::array();
  std::string elements;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Json about = sources[i].about;
    about["label"] = sources[i].label;
    overview["sources"].push_back(std::move(about));
    for (const auto& [name, json] : sources[i].points)
      elements += data_element(fmt::format("point-{}-{}", i, name), json);
    for (const auto& [name, json] : sources[i].traces)
      elements += data_element(fmt::format("trace-{}-{}", i, name), json);
  }
  return data_element("report-data", overview) + elements;
}

}  // namespace

Result<std::string> report_page(const std::vector<ReportSource>& sources, const std::string& folder) {
  Parts parts(folder);
  std::string script;
  for (const char* const name : kScripts) script += parts.read(name);
  const std::pair<const char*, std::string> replacements[] = {{"@STYLE@", parts.read("page.css")},
                                                              {"@DATA@", data_of(sources)},
                                                              {"@LIBRARY@", parts.read("chart.js")},
                                                              {"@SCRIPT@", script}};
  std::string rest = parts.read("page.html");
  if (!parts.problem().empty()) return Error{parts.problem()};
  std::string page;
  for (const auto& [mark, text] : replacements) {
    const std::size_t at = rest.find(mark);
    if (at == std::string::npos) return error("{}/page.html: has no {}", folder, mark);
    page += rest.substr(0, at) + text;
    rest.erase(0, at + std::strlen(mark));
  }
  return page + rest;
}

}  // namespace braid::cli
