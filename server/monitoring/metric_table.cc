// SPDX-License-Identifier: Apache-2.0
#include "server/monitoring/metric_table.h"

#include <absl/strings/match.h>
#include <google/protobuf/descriptor.h>

namespace tensord::server {

bool MetricField::Grows() const { return absl::EndsWith(metric->name(), "_total"); }

double MetricField::ValueOf(const v1::Stats& stats) const {
  const google::protobuf::Reflection& reflection = *v1::Stats::GetReflection();
  if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
    return reflection.GetString(stats, field).empty() ? 0 : 1;
  }
  const auto value = static_cast<double>(reflection.GetUInt64(stats, field));
  return absl::StrContains(field->name(), "nanoseconds") ? value / 1e9 : value;
}

const std::vector<MetricField>& MetricTable() {
  static const auto* const table = [] {
    auto* const fields = new std::vector<MetricField>;
    const google::protobuf::Descriptor& stats = *v1::Stats::descriptor();
    for (int i = 0; i < stats.field_count(); ++i) {
      const google::protobuf::FieldDescriptor* field = stats.field(i);
      if (!field->options().HasExtension(v1::metric)) continue;
      fields->push_back({field, &field->options().GetExtension(v1::metric)});
    }
    return fields;
  }();
  return *table;
}

}  // namespace tensord::server
