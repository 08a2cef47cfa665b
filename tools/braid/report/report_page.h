// The report as one file of HTML: the page's parts, which tools/report has, with the data in it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/report/report_source.h"

namespace braid::cli {

// `parts`: the folder of the page's parts. Error: one cannot be read.
Result<std::string> report_page(const std::vector<ReportSource>& sources, const std::string& parts);

}  // namespace braid::cli
