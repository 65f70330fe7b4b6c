// AxoNN as a library: the verbs of the program, callable from C and C++.
//
//     const char *settings[] = { "data.train=book.txt", "train.steps=100", "train.out=out/book",
//                                "--ranks", "4", "--grid", "x=2,z=2" };
//     if (axonn_train(7, settings) != AXONN_OK)
//         fprintf(stderr, "%s\n", axonn_error());
//
// Settings are what stands behind the verb on the command line: key=value, --key value,
// --config FILE, --ranks N, --grid G. Every call returns when all ranks of this process have ended.
// Calls log and report errors to stderr as the program does; they install no signal handlers. Under
// mpirun or srun a process may make one call, and every process must make the same one: the call
// opens and finalises MPI.
#ifndef AXONN_H
#define AXONN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum axonn_result {
    AXONN_OK = 0,
    AXONN_FAILED = 1,    // it could not be done
    AXONN_WRONG_USE = 2, // a setting, value or file name is wrong
    AXONN_STOPPED = 75,  // the time of train.wall_time or of the job was over, and all is saved:
                         // the same call with train.resume=auto goes on
} axonn_result;

const char *axonn_version(void); // "0.1.0"

// The last error message of this thread, or "". Valid until the next call.
const char *axonn_error(void);

// Pretrains or continues training; the run directory is the setting train.out.
axonn_result axonn_train(int count, const char *const *settings);

typedef struct axonn_evaluation {
    double loss;    // nats a token, mean
    int64_t tokens; // targets scored
    double seconds;
} axonn_evaluation;

// Scores the model of the setting model.init on data.valid, or on the held-out tail of data.train.
// Under a launcher `out` is filled on rank 0.
axonn_result axonn_evaluate(int count, const char *const *settings, axonn_evaluation *out);

// Continues the prompt of the setting generate.prompt, or those of the file generate.prompts, with
// the model of model.init. `emit` is called on rank 0. One prompt: with the prompt first, then with
// the bytes of each token as they come. A file: with each prompt and its text, in order. Bytes are
// not terminated; a call with length 0 ends a text.
typedef void axonn_emit(void *ctx, const char *bytes, size_t length);
axonn_result axonn_generate(int count, const char *const *settings, axonn_emit *emit, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
