// Assembly with a memory operand, of which nobody knows whether it is shared: refused in a program with access checks.
void compiles(long* p);
void is_refused(long* p);

void compiles(long* p) {
  asm volatile("" : : "r"(*p) : "memory");
  long own = 1;
  asm volatile("incq %0" : "+m"(own));
}

void is_refused(long* p) {
  asm volatile("incq %0" : "+m"(*p));
}
