//! Small components that take seconds to minutes and gigabytes to compile. Each is a sound strategy with one more core module,
//! which nobody runs: the compiler works through it all the same.

use wasm_encoder::{
    BlockType, CodeSection, Component, ComponentSection, ComponentSectionId, Function, FunctionSection,
    InstanceSection, Module, RawSection, TypeSection, ValType,
};

use super::wat::{self, Defined};

/// Many locals, each alive across many branches: the compiler keeps track of every pair.
pub(crate) fn locals_times_branches(locals: u32, branches: u32) -> Vec<u8> {
    strategy_with([branching(Function::new([(locals, ValType::I64)]), locals, branches)])
}

/// The same in many functions, none of them too much for itself.
pub(crate) fn many_times_locals_times_branches(functions: u32, locals: u32, branches: u32) -> Vec<u8> {
    strategy_with(
        (0..functions).map(|_| branching(Function::new([(locals, ValType::I64)]), locals, branches)),
    )
}

fn branching(mut f: Function, locals: u32, branches: u32) -> Function {
    f.instructions().loop_(BlockType::Empty);
    for i in 0..branches {
        let local = i % locals;
        f.instructions()
            .block(BlockType::Empty)
            .local_get(0)
            .i32_wrap_i64()
            .br_if(0)
            .local_get(local)
            .i64_const(1)
            .i64_add()
            .local_set((local + 1) % locals)
            .end();
    }
    f.instructions().local_get(0).i32_wrap_i64().br_if(0).end();
    for local in 0..locals {
        f.instructions().local_get(local).drop();
    }
    f.instructions().end();
    f
}

/// The same with the branches packed into jump tables.
pub(crate) fn locals_times_table_targets(locals: u32, tables: u32, targets: u32) -> Vec<u8> {
    let mut f = Function::new([(locals, ValType::I64)]);
    let depth = 500;
    for _ in 0..depth {
        f.instructions().block(BlockType::Empty);
    }
    for i in 0..tables {
        let to: Vec<u32> = (0..targets).map(|t| (t + i) % depth).collect();
        f.instructions().block(BlockType::Empty).local_get(i % locals).i32_wrap_i64();
        f.instructions().br_table(to, 0).end();
    }
    for i in 0..depth {
        let local = i % locals;
        f.instructions().local_get(local).i64_const(1).i64_add().local_set((local + 1) % locals).end();
    }
    for local in 0..locals {
        f.instructions().local_get(local).drop();
    }
    f.instructions().end();
    strategy_with([f])
}

/// Blocks that take and give many values: like locals, but declared nowhere.
pub(crate) fn blocks_of_many_values(values: u32, blocks: u32) -> Vec<u8> {
    let mut f = Function::new([(1, ValType::I32)]);
    for _ in 0..values {
        f.instructions().i64_const(1);
    }
    for _ in 0..blocks {
        f.instructions().block(BlockType::FunctionType(1)).local_get(0).br_if(0).end();
    }
    for _ in 0..values {
        f.instructions().drop();
    }
    f.instructions().end();
    let mut types = TypeSection::new();
    types.ty().function([], []);
    let many = || (0..values).map(|_| ValType::I64);
    types.ty().function(many(), many());
    strategy_with_types(&types, [f])
}

/// A long row of blocks with a value each, as any compiler writes them, only too many of them in one function.
pub(crate) fn blocks_in_a_row(blocks: u32) -> Vec<u8> {
    let mut f = Function::new([(2, ValType::I64)]);
    for i in 0..blocks {
        f.instructions()
            .block(BlockType::Result(ValType::I64))
            .local_get(0)
            .local_get(0)
            .i32_wrap_i64()
            .br_if(0)
            .local_get(1)
            .i64_mul()
            .end()
            .local_set(i % 2);
    }
    f.instructions().end();
    strategy_with([f])
}

/// Small functions of many locals, none of which is used.
pub(crate) fn functions_of_many_locals(count: u32, locals: u32) -> Vec<u8> {
    strategy_with((0..count).map(|_| {
        let mut f = Function::new([(locals, ValType::I64)]);
        f.instructions().end();
        f
    }))
}

/// Calls that take and give many values: two bytes each, and a thousand moves.
pub(crate) fn calls_of_many_values(values: u32, calls: u32) -> Vec<u8> {
    let many = || (0..values).map(|_| ValType::I64);
    let mut types = TypeSection::new();
    types.ty().function(many(), many());
    let mut f = Function::new([]);
    for value in 0..values {
        f.instructions().local_get(value);
    }
    for _ in 0..calls {
        f.instructions().call(0);
    }
    f.instructions().end();
    strategy_with_types(&types, [f])
}

/// Many parameters, which are locals too.
pub(crate) fn parameters_times_branches(parameters: u32, branches: u32) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function((0..parameters).map(|_| ValType::I64), []);
    strategy_with_types(&types, [branching(Function::new([]), parameters, branches)])
}

/// So many functions that each being small is no help.
pub(crate) fn functions(count: u32) -> Vec<u8> {
    strategy_with((0..count).map(|_| {
        let mut f = Function::new([]);
        f.instructions().end();
        f
    }))
}

/// One function of so many instructions.
pub(crate) fn body(instructions: u32) -> Vec<u8> {
    let mut f = Function::new([(2, ValType::I32)]);
    for _ in 0..instructions / 4 {
        f.instructions().local_get(0).local_get(1).i32_rem_u().local_set(0);
    }
    f.instructions().end();
    strategy_with([f])
}

/// A component of a nest of components: each of `depth` levels makes `width` instances of the next, the innermost one `width`
/// core instances. Some hundred bytes that are `width` to the power of `depth` instances when they are unfolded, as the
/// compiler does.
pub(crate) fn nested_components(depth: u32, width: u32) -> Vec<u8> {
    let mut inner = Component::HEADER.to_vec();
    push(&mut inner, ComponentSectionId::CoreModule, &Module::HEADER);
    instantiate_modules(&mut inner, 0, width);
    for _ in 2..depth {
        let mut outer = Component::HEADER.to_vec();
        push(&mut outer, ComponentSectionId::Component, &inner);
        instantiate_components(&mut outer, 0, width);
        inner = outer;
    }
    let (mut strategy, defined) = sound();
    push(&mut strategy, ComponentSectionId::Component, &inner);
    instantiate_components(&mut strategy, defined.components, width);
    strategy
}

/// Components within components, each of a few bytes, none used.
pub(crate) fn deeply_nested_components(depth: u32) -> Vec<u8> {
    let mut inner = Component::HEADER.to_vec();
    for _ in 1..depth {
        let mut outer = Component::HEADER.to_vec();
        push(&mut outer, ComponentSectionId::Component, &inner);
        inner = outer;
    }
    let (mut strategy, _) = sound();
    push(&mut strategy, ComponentSectionId::Component, &inner);
    strategy
}

/// A list of lists of lists.
pub(crate) fn deep_types(depth: u32) -> Vec<u8> {
    let (mut strategy, defined) = sound();
    let first = defined.types;
    let mut types = wasm_encoder::ComponentTypeSection::new();
    types.defined_type().list(wasm_encoder::PrimitiveValType::U8);
    for level in 1..depth {
        types.defined_type().list(wasm_encoder::ComponentValType::Type(first + level - 1));
    }
    types.append_to_component(&mut strategy);
    strategy
}

/// A strategy that makes so many instances of an empty core module. No bomb for the compiler.
pub(crate) fn core_instances(count: u32) -> Vec<u8> {
    let (mut strategy, defined) = sound();
    push(&mut strategy, ComponentSectionId::CoreModule, &Module::HEADER);
    instantiate_modules(&mut strategy, defined.modules, count);
    strategy
}

fn strategy_with(functions: impl IntoIterator<Item = Function>) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([], []);
    strategy_with_types(&types, functions)
}

fn strategy_with_types(types: &TypeSection, functions: impl IntoIterator<Item = Function>) -> Vec<u8> {
    let mut declared = FunctionSection::new();
    let mut code = CodeSection::new();
    for f in functions {
        declared.function(0);
        code.function(&f);
    }
    let mut module = Module::new();
    module.section(types).section(&declared).section(&code);
    let (mut strategy, _) = sound();
    push(&mut strategy, ComponentSectionId::CoreModule, &module.finish());
    strategy
}

/// A sound strategy, and the numbers that what comes next in it will have.
fn sound() -> (Vec<u8>, Defined) {
    let component = wat::component("");
    let defined = Defined::by(&component);
    (component, defined)
}

fn instantiate_modules(component: &mut Vec<u8>, module: u32, count: u32) {
    let mut instances = InstanceSection::new();
    for _ in 0..count {
        instances.instantiate::<[_; 0], &str>(module, []);
    }
    instances.append_to_component(component);
}

fn instantiate_components(component: &mut Vec<u8>, inner: u32, count: u32) {
    let mut instances = wasm_encoder::ComponentInstanceSection::new();
    for _ in 0..count {
        let nothing: [(&str, wasm_encoder::ComponentExportKind, u32); 0] = [];
        instances.instantiate(inner, nothing);
    }
    instances.append_to_component(component);
}

fn push(component: &mut Vec<u8>, id: ComponentSectionId, data: &[u8]) {
    RawSection { id: id as u8, data }.append_to_component(component);
}
