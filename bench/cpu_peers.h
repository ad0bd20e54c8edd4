// The CPU peers: hand-written loops as a careful C++ programmer would leave them, and oneDNN. Plain C signatures.
// Compiled by clang++ with every flag such loops get (cpu_peers.cpp), called by cpu_memory_bound.cpp in one process
// with ours.
#pragma once

#include <cstddef>

extern "C" {
// n elements each; parallel over all cores.
void peer_copy(const float* x, float* y, std::size_t n);
void peer_add(const float* a, const float* b, float* y, std::size_t n);
void peer_gelu_tanh(const float* x, float* y, std::size_t n);
void peer_gelu_erf(const float* x, float* y, std::size_t n);
// rows x cols, row-major.
void peer_softmax(const float* x, float* y, std::size_t rows, std::size_t cols);
void peer_layer_norm_gelu(const float* x, const float* weight, const float* bias, float* y, std::size_t rows,
                          std::size_t cols);

// oneDNN; false where it was not found when the peers were built.
bool peer_has_onednn();
void onednn_gelu(bool tanh_form, const float* x, float* y, std::size_t n);
void onednn_softmax(const float* x, float* y, std::size_t rows, std::size_t cols);
void onednn_layer_norm(const float* x, const float* weight, const float* bias, float* y, std::size_t rows,
                       std::size_t cols);
}
