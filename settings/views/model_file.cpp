// Reads files of cost models.
#include "settings/cost_model.h"
#include "settings/views/yaml.h"

namespace braid::settings {

Result<CostModel> CostModel::parse(const std::string& yaml, const std::string& file) {
  const Result<Document> document = parse_yaml(yaml, file);
  if (!document) return document.error();
  if (!document->root().is_map())
    return error("{}: not a cost model: it must have 'name', 'clock_mhz' and 'cycles'", file);
  Collector<CostModel> collector;
  if (const Result<void> done = collector.load(*document); !done) return done.error();
  return collector.finish();
}

Result<CostModel> CostModel::load(const std::string& path) {
  const Result<std::string> text = read_text_file(path);
  if (!text) return text.error();
  return parse(*text, path);
}

}  // namespace braid::settings
