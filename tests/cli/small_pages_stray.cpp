// Code without access checks, as a library's: linked with small_pages_app.cpp.
unsigned stray_read(const unsigned char* p);
void stray_write(unsigned char* p, unsigned char value);

unsigned stray_read(const unsigned char* p) {
  return *p;
}
void stray_write(unsigned char* p, unsigned char value) {
  *p = value;
}
