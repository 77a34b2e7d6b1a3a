// What Python passes: arrays by the buffer protocol, checked and held while a kernel works.
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <cstring>
#include <vector>

#include "interface.hpp"

namespace {

using selfselect::Index;

// ---- errors --------------------------------------------------------------------------------------

struct Refused {};  // a Python error is set

[[noreturn]] void refuse(PyObject* kind, const char* why) {
    PyErr_SetString(kind, why);
    throw Refused{};
}

[[noreturn]] void disagree() {
    refuse(PyExc_ValueError, "the shapes of the arguments disagree");
}

// ---- arguments -----------------------------------------------------------------------------------

bool is_format(const char* format, double) { return !std::strcmp(format, "d"); }
bool is_format(const char* format, std::int8_t) { return !std::strcmp(format, "b"); }
bool is_format(const char* format, bool) { return !std::strcmp(format, "?"); }
bool is_format(const char* format, std::int64_t) {
    return !std::strcmp(format, "l") || !std::strcmp(format, "q");
}
bool is_format(const char* format, std::uint64_t) {
    return !std::strcmp(format, "L") || !std::strcmp(format, "Q");
}

// An array of Python, held as long as this lives.
template <class T>
class Held {
   public:
    Held(PyObject* object, int dimensions, bool writable = false) {
        const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(object, &view_, flags)) throw Refused{};
        if (view_.ndim != dimensions || !is_format(view_.format, T{})) {
            PyBuffer_Release(&view_);
            refuse(PyExc_TypeError, "an argument has the wrong number of axes or type of numbers");
        }
        bool whole = reinterpret_cast<std::uintptr_t>(view_.buf) % alignof(T) == 0;
        for (int i = 0; i < dimensions; ++i) whole &= view_.strides[i] % Index(sizeof(T)) == 0;
        if (!whole) {
            PyBuffer_Release(&view_);
            refuse(PyExc_ValueError, "an argument is not aligned in memory");
        }
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { PyBuffer_Release(&view_); }

    Index size(int axis) const { return view_.shape[axis]; }
    Index stride(int axis) const { return view_.strides[axis] / Index(sizeof(T)); }
    T* data() const { return static_cast<T*>(view_.buf); }
    T at(Index i) const { return data()[i * stride(0)]; }
    T at(Index i, Index j) const { return data()[i * stride(0) + j * stride(1)]; }

    // Where the caller made the array for the kernel, it lies there without gaps.
    T* flat(Index count) const {
        Index size = 1;
        for (int i = view_.ndim - 1; i >= 0; --i) {
            if (view_.shape[i] != 1 && stride(i) != size && count)
                refuse(PyExc_ValueError, "an argument is not contiguous");
            size *= view_.shape[i];
        }
        if (size != count) disagree();
        return data();
    }

   private:
    Py_buffer view_;
};

// The same, where None stands for no array.
template <class T>
class Perhaps {
   public:
    Perhaps(PyObject* object, int dimensions, bool writable = false) {
        if (object != Py_None) held_ = new Held<T>(object, dimensions, writable);
    }
    Perhaps(const Perhaps&) = delete;
    Perhaps& operator=(const Perhaps&) = delete;
    ~Perhaps() { delete held_; }
    explicit operator bool() const { return held_ != nullptr; }
    const Held<T>* operator->() const { return held_; }

   private:
    Held<T>* held_ = nullptr;
};

double number(PyObject* object) {
    const double value = PyFloat_AsDouble(object);
    if (value == -1.0 && PyErr_Occurred()) throw Refused{};
    return value;
}

bool truth(PyObject* object) {
    const int value = PyObject_IsTrue(object);
    if (value < 0) throw Refused{};
    return value;
}

template <class T>
std::vector<T> copied(const Held<T>& from) {
    std::vector<T> values(from.size(0));
    for (Index i = 0; i < from.size(0); ++i) values[i] = from.at(i);
    return values;
}

// Rows and parameters, the first thirteen arguments of every pass.
class RowArguments {
   public:
    static constexpr Py_ssize_t COUNT = 13;

    explicit RowArguments(PyObject* const* given)
        : covariates_(given[0], 2), status_(given[1], 2), limit_(given[2], 2), upper_(given[3], 2),
          weights_(given[4], 1) {
        const Held<std::int64_t> columns(given[5], 2);
        const Held<std::int64_t> sizes(given[6], 1);
        const Held<double> shift(given[7], 1), unit(given[8], 1);
        const Held<double> g(given[11], 2), h(given[12], 1);
        rows.n_rows = covariates_.size(0);
        rows.n_covariates = covariates_.size(1);
        rows.n_alternatives = columns.size(0);
        rows.width = columns.size(1);
        const Index n = rows.n_rows, k = rows.n_alternatives, width = rows.width;
        const bool agree =
            status_.size(0) == n && status_.size(1) == k && limit_.size(0) == n &&
            (limit_.size(1) == 1 || limit_.size(1) == k) &&
            (!upper_ || (upper_->size(0) == n && upper_->size(1) == k)) &&
            (!weights_ || weights_->size(0) == n) && sizes.size(0) == k && h.size(0) == k &&
            g.size(0) == k && g.size(1) == width && shift.size(0) == rows.n_covariates + 1 &&
            unit.size(0) == rows.n_covariates + 1;
        if (!agree) disagree();

        sizes_ = copied(sizes);
        h_ = copied(h);
        shift_ = copied(shift);
        scale_ = copied(unit);
        for (double& one : scale_) one = 1.0 / one;
        columns_.resize(k * width);
        g_.resize(k * width);
        for (Index j = 0; j < k; ++j) {
            if (sizes_[j] < 0 || sizes_[j] > width) outside();
            for (Index p = 0; p < width; ++p) {
                columns_[j * width + p] = columns.at(j, p);
                g_[j * width + p] = g.at(j, p);
                const bool within = columns.at(j, p) >= 0 && columns.at(j, p) <= rows.n_covariates;
                if (p < sizes_[j] && !within) outside();
            }
        }
        rows.covariates = {covariates_.data(), covariates_.stride(0), covariates_.stride(1)};
        rows.status = {status_.data(), status_.stride(0), status_.stride(1)};
        rows.limit = {limit_.data(), limit_.stride(0), limit_.size(1) == 1 ? 0 : limit_.stride(1)};
        rows.upper = {nullptr, 0, 0};
        if (upper_) rows.upper = {upper_->data(), upper_->stride(0), upper_->stride(1)};
        rows.weights = {nullptr, 0};
        if (weights_) rows.weights = {weights_->data(), weights_->stride(0)};
        rows.columns = columns_.data();
        rows.sizes = sizes_.data();
        rows.shift = shift_.data();
        rows.scale = scale_.data();
        rows.limit_shift = number(given[9]);
        rows.limit_scale = 1.0 / number(given[10]);
        rows.g = g_.data();
        rows.h = h_.data();
    }

    selfselect::Rows rows;

   private:
    [[noreturn]] static void outside() {
        refuse(PyExc_ValueError, "columns or sizes point outside of [1 | covariates]");
    }
    Held<double> covariates_;
    Held<std::int8_t> status_;
    Held<double> limit_;
    Perhaps<double> upper_, weights_;
    std::vector<std::int64_t> columns_, sizes_;
    std::vector<double> shift_, scale_, g_, h_;
};

}  // namespace
