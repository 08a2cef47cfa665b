// Run configurations in YAML. Whatever a file says that is not a setting with an allowed value, said once, is
// refused with file, line, column, key and cure: a misspelt key that is ignored is a run that measures
// something else.
#include <set>

#include "tools/braid/run_config.h"
#include "tools/braid/yaml_file.h"

namespace braid::cli {
namespace {

// Walks one document into a RunConfig. The first problem ends the walk.
class Loader {
 public:
  Loader(RunConfig& config, std::map<std::string, std::string>& places, const std::string& file)
      : config_(config), places_(places), file_(file) {}

  Result<void> load(const YAML::Node& root) {
    if (root.IsNull()) return {};  // nothing said: all defaults
    if (!root.IsMap()) return error("{}: the file must be a list of 'key: value' lines", place(root));
    return load_map(root, "");
  }

  // `name` in full: "section.key".
  Result<void> load_entry(const YAML::Node& key, const YAML::Node& value, const std::string& name) {
    if (name == "dpdk.interfaces") return load_interfaces(key, value);
    if (is_section(name)) {
      if (!value.IsMap())
        return wrong(key, name, "is a section; put its keys below it, indented: " + keys_of(name + "."));
      return load_map(value, name);
    }
    const Setting* const setting = find_setting(name);
    if (setting == nullptr) return unknown(key, name);
    if (const Result<void> single = check_scalar(key, value, name, setting->allowed, setting->quoted_text);
        !single)
      return single;
    if (const std::string problem = setting->set(config_, value.Scalar()); !problem.empty())
      return wrong(value, name, problem);
    places_[name] = fmt::format("{}: key '{}':", place(key), name);
    return {};
  }

 private:
  std::string place(const YAML::Node& node) const { return place_in(file_, node); }
  Error wrong(const YAML::Node& node, const std::string& key, const std::string& text) const {
    return wrong_key(file_, node, key, text);
  }

  // The settings of one section; "" is the top.
  Result<void> load_map(const YAML::Node& map, const std::string& section) {
    std::set<std::string> seen;
    for (const auto& entry : map) {
      const YAML::Node key = entry.first;
      const YAML::Node value = entry.second;
      if (!key.IsScalar()) return error("{}: a key must be one word", place(key));
      const std::string name = section.empty() ? key.Scalar() : section + "." + key.Scalar();
      if (!seen.insert(name).second) return wrong(key, name, "is there twice; remove one of them");
      if (const Result<void> done = load_entry(key, value, name); !done) return done;
    }
    return {};
  }

  // One value, and not a quoted string where a number or true/false is wanted.
  Result<void> check_scalar(const YAML::Node& key, const YAML::Node& value, const std::string& name,
                            const std::string& allowed, bool quoted_text) const {
    if (value.IsNull()) return wrong(key, name, "has no value; allowed: " + allowed);
    if (!value.IsScalar())
      return wrong(value, name,
                   fmt::format("is a {} where one value is wanted; allowed: {}",
                               value.IsMap() ? "section" : "list", allowed));
    // yaml-cpp's mark of a quoted scalar.
    if (!quoted_text && value.Tag() == "!")
      return wrong(
          value, name,
          fmt::format("\"{}\" is a string; write it without quotes; allowed: {}", value.Scalar(), allowed));
    return {};
  }

  Result<void> load_interfaces(const YAML::Node& key, const YAML::Node& value) {
    const std::string name = "dpdk.interfaces";
    if (!value.IsSequence())
      return wrong(
          value.IsNull() ? key : value, name,
          "must be a list with an entry '- {cluster: 0, interface: …, address: …}' for each cluster");
    places_[name] = fmt::format("{}: key '{}':", place(key), name);
    config_.dpdk.interfaces.clear();
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string entry = fmt::format("{}[{}]", name, i);
      if (!value[i].IsMap())
        return wrong(value[i], entry, "must be '{cluster: 0, interface: …, address: …}'");
      if (const Result<void> done = load_interface(value[i], entry); !done) return done;
    }
    return {};
  }

  Result<void> load_interface(const YAML::Node& map, const std::string& name) {
    InterfaceConfig interface;
    std::set<std::string> seen;
    for (const auto& entry : map) {
      if (!entry.first.IsScalar()) return error("{}: a key must be one word", place(entry.first));
      const std::string word = entry.first.Scalar();
      const std::string key = name + "." + word;
      if (!seen.insert(word).second) return wrong(entry.first, key, "is there twice; remove one of them");
      const InterfaceSetting* found = nullptr;
      std::vector<std::string> known;
      for (const InterfaceSetting& setting : interface_settings()) {
        known.push_back(setting.key);
        if (setting.key == word) found = &setting;
      }
      if (found == nullptr) return wrong(entry.first, key, not_known(word, known));
      if (const Result<void> single =
              check_scalar(entry.first, entry.second, key, "one value", word != "cluster");
          !single)
        return single;
      if (const std::string problem = found->set(interface, entry.second.Scalar()); !problem.empty())
        return wrong(entry.second, key, problem);
    }
    for (const InterfaceSetting& setting : interface_settings()) {
      if (setting.required && !seen.contains(setting.key))
        return wrong(map, name, fmt::format("has no '{}'; add it", setting.key));
    }
    config_.dpdk.interfaces.push_back(std::move(interface));
    return {};
  }

  Error unknown(const YAML::Node& key, const std::string& name) const {
    const std::size_t dot = name.find('.');
    const std::string word = dot == std::string::npos ? name : name.substr(dot + 1);
    std::vector<std::string> here, all;
    for (const std::string& known : all_keys()) {
      all.push_back(known);
      if (dot != std::string::npos && known.starts_with(name.substr(0, dot + 1))) here.push_back(known);
    }
    // Of the same section first: 'sleep_min' is nearer to its neighbours than to anything elsewhere.
    if (const auto near = nearest(word, here))
      return wrong(key, name, "is not known; did you mean '" + *near + "'?");
    if (const auto near = nearest(word, all))
      return wrong(key, name, "is not known; did you mean '" + *near + "'?");
    return wrong(
        key, name,
        "is not known; known here: " + keys_of(dot == std::string::npos ? "" : name.substr(0, dot + 1)));
  }

  static std::vector<std::string> all_keys() {
    std::vector<std::string> keys;
    std::set<std::string> sections;
    for (const Setting& setting : settings()) {
      const std::size_t dot = setting.key.find('.');
      if (dot != std::string::npos && sections.insert(setting.key.substr(0, dot)).second)
        keys.push_back(setting.key.substr(0, dot));
      keys.push_back(setting.key);
    }
    keys.emplace_back("dpdk.interfaces");
    return keys;
  }

  static bool is_section(const std::string& name) {
    for (const Setting& setting : settings()) {
      if (setting.key.starts_with(name + ".")) return true;
    }
    return false;
  }

  // The words that may follow `prefix` ("" or "section.").
  static std::string keys_of(const std::string& prefix) {
    std::string list;
    for (const std::string& key : all_keys()) {
      if (!key.starts_with(prefix)) continue;
      const std::string rest = key.substr(prefix.size());
      if (rest.find('.') != std::string::npos) continue;
      list += (list.empty() ? "" : ", ") + rest;
    }
    return list;
  }

  RunConfig& config_;
  std::map<std::string, std::string>& places_;
  const std::string& file_;
};

}  // namespace

Result<void> ConfigBuilder::load_file(const std::string& path) {
  const Result<std::string> text = read_text_file(path);
  return text ? load_text(*text, path) : text.error();
}

Result<void> ConfigBuilder::load_text(const std::string& yaml, const std::string& name) {
  const Result<YAML::Node> document = read_yaml(yaml, name);
  if (!document) return document.error();
  return load_node(*document, name);
}

Result<void> ConfigBuilder::load_node(const YAML::Node& settings, const std::string& file) {
  return Loader(config_, places_, file).load(settings);
}

Result<void> ConfigBuilder::load_entry(const YAML::Node& key, const YAML::Node& value,
                                       const std::string& file) {
  return Loader(config_, places_, file).load_entry(key, value, key.Scalar());
}

}  // namespace braid::cli
