// SPDX-License-Identifier: Apache-2.0
#include "server/monitoring/metric_table.h"

#include <google/protobuf/descriptor.h>

#include <string_view>

#include "base/check.h"

namespace tensord::server {

bool Metric::Grows() const { return std::string_view(name).ends_with("_total"); }

double Metric::ValueOf(const v1::Stats& stats) const {
  const google::protobuf::FieldDescriptor* found = v1::Stats::descriptor()->FindFieldByName(field);
  TENSORD_CHECK(found != nullptr);
  const google::protobuf::Reflection& reflection = *v1::Stats::GetReflection();
  if (found->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
    return reflection.GetString(stats, found).empty() ? 0 : 1;
  }
  const auto value = static_cast<double>(reflection.GetUInt64(stats, found));
  return std::string_view(field).find("nanoseconds") == std::string_view::npos ? value
                                                                               : value / 1e9;
}

const std::vector<Metric>& MetricTable() {
  static const auto* const table = new std::vector<Metric>{
      {"uptime_seconds", "tensord_uptime_seconds", "", "Time since the daemon started."},
      {"resident_bytes", "tensord_resident_memory_bytes", "",
       "Resident memory of the daemon, without its workers."},

      {"requests", "tensord_requests_received_total", "",
       "Requests for a program, also those not answered yet."},
      {"hits", "tensord_requests_total", "outcome=hit",
       "Requests for a program that were answered: found, compiled for this request, compiled for "
       "another that was waited for, or failed."},
      {"compiled", "tensord_requests_total", "outcome=compiled", ""},
      {"joined", "tensord_requests_total", "outcome=joined", ""},
      {"failed", "tensord_requests_total", "outcome=failed", ""},
      {"hits_store", "tensord_hits_total", "tier=store",
       "Requests whose program was found: in the daemon's own store, or brought from the fleet."},
      {"hits_fleet", "tensord_hits_total", "tier=fleet", ""},
      {"rejected", "tensord_requests_refused_total", "reason=full",
       "Failed requests that were refused: as too many waited (max_waiting), or as they had waited "
       "too long (queue_seconds)."},
      {"waited_too_long", "tensord_requests_refused_total", "reason=late", ""},
      {"calls_unauthenticated", "tensord_unauthenticated_calls_total", "",
       "Calls by the network (listen_tls) without a token or with a wrong one."},
      {"in_flight", "tensord_requests_in_flight", "", "Requests that wait for a compile."},
      {"queued", "tensord_compiles_queued", "", "Compiles that wait for their turn."},
      {"request_bytes", "tensord_request_memory_bytes", "", "Memory of requests that are held."},
      {"lookup_nanoseconds", "tensord_lookup_seconds_total", "",
       "Time to answer requests whose program was found."},
      {"saved_nanoseconds", "tensord_compile_saved_seconds_total", "",
       "Time that compiling took what was found instead."},

      {"kernels_compiled", "tensord_kernels_total", "outcome=compiled",
       "Kernels that programs wanted: compiled, found in the store, or not to be compiled."},
      {"kernels_reused", "tensord_kernels_total", "outcome=reused", ""},
      {"kernels_failed", "tensord_kernels_total", "outcome=failed", ""},
      {"repros_kept", "tensord_repros_kept_total", "",
       "Graphs that were kept as a compiler failed on them."},

      {"workers", "tensord_workers", "", "Worker processes that run."},
      {"worker_restarts", "tensord_worker_restarts_total", "",
       "Workers that crashed, or were ended for what they took."},
      {"worker_cpu_nanoseconds", "tensord_worker_cpu_seconds_total", "",
       "CPU time of workers and their compilers."},

      {"programs_stored", "tensord_store_programs", "", "Programs in the store."},
      {"frames_stored", "tensord_store_frames", "", "Frames in the store."},
      {"bytes_stored", "tensord_store_bytes", "", "Size of the store on disk."},
      {"frame_bytes_stored", "tensord_store_frame_bytes", "",
       "Part of the store's size that frames have."},
      {"store_limit_bytes", "tensord_store_limit_bytes", "",
       "Size at which the store evicts (store_limit); 0: none."},
      {"programs_evicted", "tensord_store_evictions_total", "kind=program",
       "What the store removed for want of room."},
      {"frames_evicted", "tensord_store_evictions_total", "kind=frame", ""},
      {"blobs_corrupt", "tensord_store_corrupt_blobs_total", "",
       "Damaged blobs that were found and removed."},
      {"store_problem", "tensord_store_problem", "",
       "1: the configured store is not in use, or takes nothing; tensorctl status says why."},

      {"frames_found", "tensord_frame_searches_total", "outcome=found",
       "Requests for the frames of a code: those that got some, and none."},
      {"frames_not_found", "tensord_frame_searches_total", "outcome=none", ""},
      {"frames_put", "tensord_frame_puts_total", "outcome=stored",
       "Frames that jobs sent: stored, or refused as malformed, of another format or too large."},
      {"frames_refused", "tensord_frame_puts_total", "outcome=refused", ""},
      {"frame_hits", "tensord_frame_hits_total", "", "Frames that served, as jobs say."},
      {"captures", "tensord_captures_total", "",
       "Captures that a job was told to make, of a code of which others may wait."},
      {"captures_waited", "tensord_capture_waits_total", "",
       "Requests that waited for another process's capture."},
      {"captures_lapsed", "tensord_captures_lapsed_total", "",
       "Captures that took too long, or whose process died."},

      {"fleet_hits", "tensord_fleet_searches_total", "outcome=hit",
       "Searches of the fleet: what was sought came, was not there, or was not asked for, as the "
       "breaker was open or many were under way."},
      {"fleet_misses", "tensord_fleet_searches_total", "outcome=miss", ""},
      {"fleet_skipped", "tensord_fleet_searches_total", "outcome=skipped", ""},
      {"fleet_waited", "tensord_fleet_waits_total", "",
       "Searches that waited for another host's compile."},
      {"fleet_errors", "tensord_fleet_errors_total", "",
       "Answers of the fleet's tier that were late or none, also to what was put."},
      {"fleet_refused", "tensord_fleet_refused_total", "",
       "What the fleet's tier gave and no trusted key has signed."},
      {"fleet_put", "tensord_fleet_puts_total", "outcome=put",
       "What was to be given to the fleet: given, or dropped."},
      {"fleet_dropped", "tensord_fleet_puts_total", "outcome=dropped", ""},
      {"fleet_breaker_open", "tensord_fleet_breaker_open", "",
       "1: the fleet's tier does not answer, and is not asked."},
      {"fleet_breaker_opened", "tensord_fleet_breaker_opened_total", "",
       "How often the fleet's tier stopped to answer."},
      {"fleet_bytes_in", "tensord_fleet_received_bytes_total", "",
       "Bytes of objects from the fleet's tier."},
      {"fleet_bytes_out", "tensord_fleet_sent_bytes_total", "",
       "Bytes of objects to the fleet's tier."},
      {"fleet_problem", "tensord_fleet_problem", "",
       "1: the fleet's tier is not asked, or something went wrong the last time; tensorctl status "
       "says what."},
  };
  return *table;
}

}  // namespace tensord::server
