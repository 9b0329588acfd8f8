// SPDX-License-Identifier: Apache-2.0
// Stored messages without what no page shows: a large model's have megabytes of it.
#ifndef TENSORD_SERVER_UI_SHORTENED_H_
#define TENSORD_SERVER_UI_SHORTENED_H_

#include "tensord/v1/artifact.pb.h"
#include "tensord/v1/frame.pb.h"

namespace tensord::server {

// Leaves target, modules, names of inputs, and what each step runs.
void Shorten(v1::Artifact* artifact);
// Leaves names, guards in words (of one without, what it checks), and of graphs the nodes' names,
// operators and lines.
void Shorten(v1::Frame* frame);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_UI_SHORTENED_H_
