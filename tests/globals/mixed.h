/* What the C++ file gives the C file. */
#ifdef __cplusplus
extern "C" {
#endif
void begin_cpp(void);        /* in main(), before the start */
void write_cpp(unsigned id); /* one compute node */
int read_cpp(void);          /* any compute node: how much is wrong */
const char* end_cpp(void);   /* after the end */
#ifdef __cplusplus
}
#endif
