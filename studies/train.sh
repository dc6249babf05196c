#!/bin/sh
# Walks towards the minimum of Rosenbrock's banana from (x, y) and reports the height after each of ten strides.
# Needs a POSIX shell and awk. Parameters: HPSEARCH_PARAM_<NAME>. Reports: lines `@hpsearch {...}`. Answers: stdin.
x=$HPSEARCH_PARAM_X
y=$HPSEARCH_PARAM_Y
step=0
while [ "$step" -lt 10 ]; do
    step=$((step + 1))
    result=$(awk -v x="$x" -v y="$y" -v d="$HPSEARCH_PARAM_DAMPING" 'BEGIN {
        for (i = 0; i < 200; i++) {
            gx = -2 * (1 - x) - 400 * x * (y - x * x)
            gy = 200 * (y - x * x)
            n = sqrt(gx * gx + gy * gy) + 1e-12
            s = 0.02 * (1 - d); if (s > 0.001 * n) s = 0.001 * n
            x -= s * gx / n; y -= s * gy / n
        }
        printf "%.8f %.8f %.8g", x, y, (1 - x) ^ 2 + 100 * (y - x * x) ^ 2
    }')
    x=${result%% *}
    y=${result#* }; y=${y%% *}
    echo "@hpsearch {\"step\": $step, \"loss\": ${result##* }}"
    # One line comes back: {"verdict":"continue"|"pause"|"stop","reason":"..."}.
    read -r answer || exit 1
    case $answer in
        *'"verdict":"stop"'*) echo "told to stop at step $step: $answer"; exit 0 ;;
    esac
done
