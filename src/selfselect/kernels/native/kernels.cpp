// All kernels of one instruction set: compiled once for each, with KERNELS as the table's name.
#include "atoms.hpp"
#include "chances.hpp"
#include "joint.hpp"
#include "known.hpp"
#include "largest.hpp"
#include "mixture.hpp"
#include "moments.hpp"
#include "rows.hpp"
#include "signed.hpp"
#include "types.hpp"
#include "unknown.hpp"
#include "unknown_shapes.hpp"

namespace selfselect {
extern const Kernels KERNELS;
const Kernels KERNELS = {
    sum_known,      sum_unknown,        sum_joint,           mix_atoms,
    simulate_atoms, evaluate_tails,     evaluate_intervals,  evaluate_known_rows,
    evaluate_memberships, sum_largest,  evaluate_chances,    evaluate_mixture,
    sum_types,      sum_mixture,        sum_moments,         sum_signed,
    sum_unknown_shapes,
};
}  // namespace selfselect
