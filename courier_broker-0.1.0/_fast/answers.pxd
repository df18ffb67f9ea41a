cdef inline Py_ssize_t write_number(unsigned char* at, long long number) noexcept nogil:
    """A number that is not negative, in decimal; how many digits it has."""
    cdef unsigned char digits[20]
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t index
    while True:
        digits[count] = <unsigned char>(c'0' + number % 10)
        count += 1
        number //= 10
        if number == 0:
            break
    for index in range(count):
        at[index] = digits[count - 1 - index]
    return count
