// Precompiled for every file that speaks gRPC: its headers are most of their compile time.
#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>
