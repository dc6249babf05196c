//! Functions that are compiled for the vector instructions of several generations of processors.

/// The instruction sets that loops are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdLevel {
    /// What every CPU of the architecture has.
    Baseline,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512F and FMA.
    Avx512,
}

/// The best level of this CPU.
pub fn simd_level() -> SimdLevel {
    #[cfg(target_arch = "x86_64")]
    return match (
        is_x86_feature_detected!("fma"),
        is_x86_feature_detected!("avx512f"),
        is_x86_feature_detected!("avx2"),
    ) {
        (true, true, _) => SimdLevel::Avx512,
        (true, false, true) => SimdLevel::Avx2,
        _ => SimdLevel::Baseline,
    };
    #[cfg(not(target_arch = "x86_64"))]
    SimdLevel::Baseline
}

/// Defines a function with instances for AVX-512 and AVX2, of which the best that the CPU supports
/// is called: `simd_level()` where it is used says which.
///
/// Instances have the same results: no operation is fused or reordered but those that say so.
#[macro_export]
macro_rules! vectorised {
    (
        $(#[$doc:meta])*
        $visibility:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?)
        $(-> $output:ty)? $body:block
    ) => {
        $(#[$doc])*
        #[cfg_attr(
            target_arch = "x86_64",
            expect(unsafe_code, reason = "an instance may only be called on a CPU with its \
                features, which the compiler cannot check")
        )]
        $visibility fn $name($($argument: $kind),*) $(-> $output)? {
            #[inline(always)]
            fn plain($($argument: $kind),*) $(-> $output)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,fma")]
                fn avx512($($argument: $kind),*) $(-> $output)? {
                    plain($($argument),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($argument: $kind),*) $(-> $output)? {
                    plain($($argument),*)
                }
                match simd_level() {
                    // SAFETY: the CPU has the features of the instance.
                    $crate::simd::SimdLevel::Avx512 => {
                        return unsafe { avx512($($argument),*) };
                    }
                    // SAFETY: as above.
                    $crate::simd::SimdLevel::Avx2 => {
                        return unsafe { avx2($($argument),*) };
                    }
                    $crate::simd::SimdLevel::Baseline => {}
                }
            }
            plain($($argument),*)
        }
    };
}
pub use vectorised;
